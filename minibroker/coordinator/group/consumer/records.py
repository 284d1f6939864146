"""Records of `__consumer_offsets` for consumer groups. `members.py` replays them.

    ConsumerGroupMetadata                     the group's epoch
    ConsumerGroupMemberMetadata               what a member says of itself
    ConsumerGroupRegularExpression            the topics that an expression matched
    ConsumerGroupTargetAssignmentMetadata     the epoch of the target assignment
    ConsumerGroupTargetAssignmentMember       the target assignment of a member
    ConsumerGroupCurrentMemberAssignment      the partitions that a member has, and must give up

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from minibroker.coordinator.group.consumer.members import ConsumerMember, ResolvedRegex
from minibroker.coordinator.group.modern import Assignment, Epochs
from minibroker.schemas.internal.consumer_group_records import (
    AssignedPartitions,
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
