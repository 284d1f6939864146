"""Members of a consumer group, their records in `__consumer_offsets`, and the image that the records replay into.

Members are immutable: a step creates new ones. Only replay changes an image: a step creates
records, and these are replayed.

    ConsumerGroupMetadata                     the group's epoch
    ConsumerGroupMemberMetadata               the fields that a member sends
    ConsumerGroupRegularExpression            the topics that an expression matched
    ConsumerGroupTargetAssignmentMetadata     the epoch of the target assignment
    ConsumerGroupTargetAssignmentMember       the target assignment of a member
    ConsumerGroupCurrentMemberAssignment      the partitions that a member has, and must give up

Invariants
  - a partition has one owner at most: the member that has it or must still give it up
  - epochs of a group grow

Source: ConsumerGroupMember, MemberState, GroupMetadataManager.replay, ConsumerGroup,
GroupCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple, Self
from uuid import UUID

from minibroker.coordinator.group.modern import JOINS, NO_EPOCHS, Assignment, Epochs, ModernImage, Replays, frozen
from minibroker.schemas.internal.consumer_group_records import (
    AssignedPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TargetPartitions,
)
from minibroker.storage.record_frame import CoordinatorRecord


class ResolvedRegex(NamedTuple):
    """The topics that an expression matched."""

    topics: tuple[str, ...]
    version: int  #: of the topics
    timestamp_ms: int


class MemberState(IntEnum):
    """The state of a member, as records have it. reconciliation.py has the table."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ConsumerMember(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  #: sorted
    topic_regex: str = ""  #: subscribes to all topics that match; "" if not set
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  #: of a member that uses the classic protocol; else None
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: Epochs = NO_EPOCHS
    pending_revocation: Epochs = NO_EPOCHS

    @property
    def subscription(self) -> tuple[tuple[str, ...], str]:
        """Its topics and its expression."""
        return self.topic_names, self.topic_regex

    def with_progress_of(self, other: ConsumerMember) -> ConsumerMember:
        """Return this member with the epochs, state and partitions of `other`, which are in a record of their own."""
        return self._replace(
            member_epoch=other.member_epoch,
            previous_member_epoch=other.previous_member_epoch,
            state=other.state,
            assigned=other.assigned,
            pending_revocation=other.pending_revocation,
        )

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether it has its target assignment."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


_STATES: Final = {state.value: state for state in MemberState}


class ConsumerGroupImage(ModernImage[ConsumerMember, Assignment]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("instances", "owners", "regexes")

    def __init__(self) -> None:
        super().__init__()
        self.instances: dict[str, str] = {}  #: instance id -> member id
        self.owners: dict[tuple[UUID, int], str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}

    def copy(self) -> Self:
        """Return a copy that can be changed alone."""
        copied = super().copy()
        copied.instances, copied.owners, copied.regexes = dict(self.instances), dict(self.owners), dict(self.regexes)
        return copied

    def topic_names_of(self, member: ConsumerMember) -> set[str]:
        """Return all topics that a member is subscribed to, by name and by expression, whether they exist or not."""
        resolved = self.regexes.get(member.topic_regex)
        return {*member.topic_names, *(resolved.topics if resolved is not None else ())}

    @staticmethod
    def target_of(value: Any) -> Assignment:
        """Decode a target assignment."""
        return frozen({each.topic_id: each.partitions for each in value.topic_partitions})

    def _replay_regex(self, key: Any, value: Any) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = ResolvedRegex(tuple(value.topics), value.version, value.timestamp)

    def _replay_member(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id, ConsumerMember(key.member_id))
        if before.instance_id is not None and self.instances.get(before.instance_id) == key.member_id:
            del self.instances[before.instance_id]
        if value is None:
            self._disown(before)
            self.members.pop(key.member_id, None)
            return
        described = ConsumerMember(
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
        self.members[key.member_id] = described.with_progress_of(before)
        if value.instance_id is not None:
            self.instances[value.instance_id] = key.member_id

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if before is not None:
            self._disown(before)
        if value is None:
            if before is not None:
                self.members[key.member_id] = before.with_progress_of(ConsumerMember(key.member_id))
            return
        member = (before or ConsumerMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=_epochs(value.assigned_partitions),
            pending_revocation=_epochs(value.partitions_pending_revocation),
        )
        self.members[key.member_id] = member
        for partition in _partitions(member):
            self.owners[partition] = key.member_id

    def _disown(self, member: ConsumerMember) -> None:
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


def _partitions(member: ConsumerMember) -> list[tuple[UUID, int]]:
    parts = (member.assigned, member.pending_revocation)
    return [(topic_id, partition) for each in parts for topic_id, epochs in each.items() for partition in epochs]


def _epochs(stored: Sequence[AssignedPartitions]) -> Epochs:
    """Decode partitions with epochs. Older versions of Apache Kafka do not store the epochs."""
    return {
        each.topic_id: dict(zip(each.partitions, each.assignment_epochs or [JOINS] * len(each.partitions), strict=False))
        for each in stored
        if each.partitions
    } or NO_EPOCHS


_VERSION: Final = 0
_TOMBSTONE: Final = -1


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a new epoch of the group."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value, _VERSION)


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member that is new or changed."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Return the record of the topics that an expression matched."""
    value = ConsumerGroupRegularExpressionValue(topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms)
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), value, _VERSION)


def regex_tombstone(group_id: str, pattern: str) -> CoordinatorRecord:
    """Return the tombstone of an expression without subscribers."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern), None, _TOMBSTONE)


def target_epoch_record(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of a target assignment."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, _VERSION)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[TargetPartitions(topic_id=each, partitions=sorted(assignment[each])) for each in sorted(assignment)]
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, _VERSION)


def current_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and partitions."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_stored(member.assigned),
        partitions_pending_revocation=_stored(member.pending_revocation),
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def _stored(partitions: Epochs) -> list[AssignedPartitions]:
    return [
        AssignedPartitions(topic_id=topic_id, partitions=sorted(epochs), assignment_epochs=[epochs[each] for each in sorted(epochs)])
        for topic_id, epochs in sorted(partitions.items())
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member."""
    keys = (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupMemberMetadataKey)
    return [CoordinatorRecord(key(group_id=group_id, member_id=member_id), None, _TOMBSTONE) for key in keys]


def group_tombstones(group_id: str, member_ids: Iterable[str] = (), patterns: Iterable[str] = ()) -> list[CoordinatorRecord]:
    """Return the tombstones of a group and its members, in the order that Kafka requires when it loads a log."""
    of_group = (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupPartitionMetadataKey, ConsumerGroupMetadataKey)
    target_epoch, topics, epoch = (CoordinatorRecord(key(group_id=group_id), None, _TOMBSTONE) for key in of_group)
    of_members = [member_tombstones(group_id, member_id) for member_id in member_ids]
    return [
        *(current for current, _, _ in of_members),
        *(target for _, target, _ in of_members),
        target_epoch,
        *(metadata for _, _, metadata in of_members),
        *(regex_tombstone(group_id, pattern) for pattern in patterns),
        topics,
        epoch,
    ]
