"""What the records of one share group say. Nothing else changes it: a step writes records, and they are replayed here.

Invariants: epochs of a group grow; members have only partitions that were initialized.
Source: GroupMetadataManager.replay, ShareGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker.coordinator.group.assignment import Assignment, frozen
from minibroker.coordinator.group.share.members import Member
from minibroker.coordinator.group.share.state_partitions import NamedAssignment, StatePartitions, named
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.schemas.internal.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)

FIRST_EPOCH: Final = 1  #: of a group that has no records yet, and of its target assignment: the first member makes it 2
NEVER: Final = 0  #: the time of an assignment that there was not


class GroupImage:
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("assignment_epoch", "assignment_timestamp_ms", "epoch", "members", "metadata_hash", "state_partitions", "targets")

    def __init__(self) -> None:
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = NEVER
        self.members: dict[str, Member] = {}  #: in the order in which they came
        self.targets: dict[str, Assignment] = {}
        self.state_partitions = StatePartitions()

    def copy(self) -> GroupImage:
        """To be changed without this one."""
        copied = GroupImage()
        copied.epoch, copied.metadata_hash = self.epoch, self.metadata_hash
        copied.assignment_epoch, copied.assignment_timestamp_ms = self.assignment_epoch, self.assignment_timestamp_ms
        copied.members, copied.targets, copied.state_partitions = dict(self.members), dict(self.targets), self.state_partitions
        return copied

    @property
    def subscribed(self) -> set[str]:
        """Names of all topics that somebody is subscribed to, whether they are there or not."""
        return {name for member in self.members.values() for name in member.topic_names}

    def replay(self, record: CoordinatorRecord) -> None:
        """Take one record of the group; those of other kinds are passed over. Compaction may have changed their order."""
        if (take := _REPLAYS.get(type(record.key))) is not None:
            take(self, record.key, record.value)

    def _replay_epoch(self, _: Any, value: Any) -> None:
        self.epoch, self.metadata_hash = (FIRST_EPOCH, 0) if value is None else (value.epoch, value.metadata_hash)

    def _replay_target_epoch(self, _: Any, value: Any) -> None:
        found = (FIRST_EPOCH, NEVER) if value is None else (value.assignment_epoch, value.assignment_timestamp)
        self.assignment_epoch, self.assignment_timestamp_ms = found

    def _replay_target(self, key: Any, value: Any) -> None:
        if value is None:
            self.targets.pop(key.member_id, None)
        else:
            self.targets[key.member_id] = _assignment(value.topic_partitions)

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
            return
        said = Member(key.member_id, value.rack_id, value.client_id, value.client_host, tuple(sorted(set(value.subscribed_topic_names))))
        self.members[key.member_id] = said.with_progress_of(self.members.get(key.member_id, said))

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is not None:
            told = Member(
                key.member_id, None, "", "", (), value.member_epoch, value.previous_member_epoch, _assignment(value.assigned_partitions)
            )
            self.members[key.member_id] = (before or told).with_progress_of(told)
        elif before is not None:
            self.members[key.member_id] = before.with_progress_of(Member(key.member_id))

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


def _assignment(stored: Sequence[Any]) -> Assignment:
    return frozen({each.topic_id: each.partitions for each in stored})


def _named(stored: Sequence[Any]) -> NamedAssignment:
    return named((each.topic_id, each.topic_name, each.partitions) for each in stored)


_REPLAYS: Final[dict[type, Callable[[GroupImage, Any, Any], None]]] = {
    ShareGroupMetadataKey: GroupImage._replay_epoch,  # noqa: SLF001  its own
    ShareGroupMemberMetadataKey: GroupImage._replay_member,  # noqa: SLF001
    ShareGroupTargetAssignmentMetadataKey: GroupImage._replay_target_epoch,  # noqa: SLF001
    ShareGroupTargetAssignmentMemberKey: GroupImage._replay_target,  # noqa: SLF001
    ShareGroupCurrentMemberAssignmentKey: GroupImage._replay_current,  # noqa: SLF001
    ShareGroupStatePartitionMetadataKey: GroupImage._replay_state_partitions,  # noqa: SLF001
}
