"""What the records of one consumer group say. Nothing else changes it: a step writes records, and they are replayed here.

Invariants
  - a partition has one owner at most: the member that has it or must still give it up
  - epochs of a group grow

Source: GroupMetadataManager.replay, ConsumerGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self
from uuid import UUID

from minibroker.coordinator.group.assignment import NO_EPOCHS, Assignment, Epochs, frozen
from minibroker.coordinator.group.consumer.members import Member, MemberState
from minibroker.coordinator.group.consumer.subscriptions import ResolvedRegex
from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.modern import ModernImage, Replays
from minibroker.schemas.internal.consumer_group_records import (
    AssignedPartitions,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)

_STATES: Final = {state.value: state for state in MemberState}


class GroupImage(ModernImage[Member, Assignment]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("instances", "owners", "regexes")

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, str] = {}  #: member ids of static members
        self.owners: dict[tuple[UUID, int], str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}

    def copy(self) -> Self:
        """To be changed without this one."""
        copied = super().copy()
        copied.instances, copied.owners, copied.regexes = dict(self.instances), dict(self.owners), dict(self.regexes)
        return copied

    @staticmethod
    def target_of(value: Any) -> Assignment:
        """What its record says."""
        return frozen({each.topic_id: each.partitions for each in value.topic_partitions})

    def _replay_regex(self, key: Any, value: Any) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)

    def _replay_member(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id, Member(key.member_id))
        if before.instance_id is not None and self.instances.get(before.instance_id) == key.member_id:
            del self.instances[before.instance_id]
        if value is None:
            self._disown(before)
            self.members.pop(key.member_id, None)
            return
        said = Member(
            member_id=key.member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=tuple(sorted(set(value.subscribed_topic_names))),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )
        self.members[key.member_id] = said.with_progress_of(before)
        if value.instance_id is not None:
            self.instances[value.instance_id] = key.member_id

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if before is not None:
            self._disown(before)
        if value is None:
            if before is not None:
                self.members[key.member_id] = before.with_progress_of(Member(key.member_id))
            return
        member = (before or Member(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_epochs(value.assigned_partitions),
            pending_revocation=_epochs(value.partitions_pending_revocation),
        )
        self.members[key.member_id] = member
        for partition in _partitions(member):
            self.owners[partition] = key.member_id

    def _disown(self, member: Member) -> None:
        for partition in _partitions(member):
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    replays: ClassVar[Replays] = {
        ConsumerGroupMetadataKey: ModernImage.replay_epoch,
        ConsumerGroupMemberMetadataKey: _replay_member,
        ConsumerGroupRegularExpressionKey: _replay_regex,
        ConsumerGroupTargetAssignmentMetadataKey: ModernImage.replay_target_epoch,
        ConsumerGroupTargetAssignmentMemberKey: ModernImage.replay_target,
        ConsumerGroupCurrentMemberAssignmentKey: _replay_current,
    }


def _partitions(member: Member) -> list[tuple[UUID, int]]:
    both = (member.assigned, member.pending_revocation)
    return [(topic_id, partition) for each in both for topic_id, epochs in each.items() for partition in epochs]


def _epochs(stored: Sequence[AssignedPartitions]) -> Epochs:
    """Older versions of Apache Kafka do not tell since when a partition is the member's."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [JOINS] * len(each.partitions), strict=False))
        for each in stored
        if each.partitions
    } or NO_EPOCHS
