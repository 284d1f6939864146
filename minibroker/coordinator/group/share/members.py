"""Members of a share group, and the image of its records.

Members are immutable: a step makes new ones. Only replay changes an image: a step makes records,
and these are replayed.

Invariants: epochs of a group grow; members have only partitions that were initialized.
Source: ShareGroupMember, GroupMetadataManager.replay, ShareGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.modern import NOTHING, Assignment, ModernImage, Replays, frozen
from minibroker.coordinator.group.share.state_partitions import NamedAssignment, StatePartitions, named
from minibroker.schemas.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)


class ShareMember(NamedTuple):
    """One member."""

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: sorted
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    assigned: Assignment = NOTHING  #: in its last answer

    def with_progress_of(self, other: ShareMember) -> ShareMember:
        """Return this member with the epochs and partitions of `other`, which another kind of record has."""
        return self._replace(member_epoch=other.member_epoch, previous_member_epoch=other.previous_member_epoch, assigned=other.assigned)


class ShareGroupImage(ModernImage[ShareMember, Assignment]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("state_partitions",)

    def __init__(self) -> None:
        super().__init__()
        self.state_partitions = StatePartitions()

    @property
    def subscribed(self) -> set[str]:
        """The names of all subscribed topics, whether they exist or not."""
        return {name for member in self.members.values() for name in member.topic_names}

    @staticmethod
    def target_of(value: Any) -> Assignment:
        """Decode a target assignment."""
        return _assignment(value.topic_partitions)

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
            return
        described = ShareMember(
            key.member_id, value.rack_id, value.client_id, value.client_host, tuple(sorted(set(value.subscribed_topic_names)))
        )
        self.members[key.member_id] = described.with_progress_of(self.members.get(key.member_id, described))

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            replayed = ShareMember(
                key.member_id, None, "", "", (), value.member_epoch, value.previous_member_epoch, _assignment(value.assigned_partitions)
            )
            self.members[key.member_id] = (before or replayed).with_progress_of(replayed)
        elif before is not None:
            self.members[key.member_id] = before.with_progress_of(ShareMember(key.member_id))

    def _replay_state_partitions(self, _: Any, value: Any) -> None:
        self.state_partitions = (
            StatePartitions()
            if value is None
            else StatePartitions(
                _named(value.initializing_topics),
                _named(value.initialized_topics),
                {each.topic_id: each.topic_name for each in value.deleting_topics},
            )
        )

    replays: ClassVar[Replays] = {
        ShareGroupMetadataKey: ModernImage.replay_epoch,
        ShareGroupMemberMetadataKey: _replay_member,
        ShareGroupTargetAssignmentMetadataKey: ModernImage.replay_target_epoch,
        ShareGroupTargetAssignmentMemberKey: ModernImage.replay_target,
        ShareGroupCurrentMemberAssignmentKey: _replay_current,
        ShareGroupStatePartitionMetadataKey: _replay_state_partitions,
    }


def _assignment(stored: Sequence[Any]) -> Assignment:
    return frozen({each.topic_id: each.partitions for each in stored})


def _named(stored: Sequence[Any]) -> NamedAssignment:
    return named((each.topic_id, each.topic_name, each.partitions) for each in stored)
