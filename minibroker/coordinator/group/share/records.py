"""Records of `__consumer_offsets` for share groups. `members.py` replays them.

    ShareGroupMetadata                     the group's epoch
    ShareGroupMemberMetadata               what a member says of itself
    ShareGroupTargetAssignmentMetadata     the epoch of the target assignment
    ShareGroupTargetAssignmentMember       the target assignment of a member
    ShareGroupCurrentMemberAssignment      the assignment in the last answer to a member
    ShareGroupStatePartitionMetadata       the partitions that have a state at the share coordinator

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.coordinator.group.modern import Assignment
from minibroker.coordinator.group.share.members import ShareMember
from minibroker.coordinator.group.share.state_partitions import NamedAssignment, StatePartitions
from minibroker.schemas.internal.share_group_records import (
    AssignedPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    StateTopic,
    TargetPartitions,
)
from minibroker.schemas.internal.share_group_records import StatePartitions as StoredPartitions
from minibroker.storage.record_frame import CoordinatorRecord

_VERSION: Final = 0
_TOMBSTONE: Final = -1
_STABLE: Final = 0


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Return the record of a new epoch of the group."""
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ShareGroupMetadataKey(group_id=group_id), value, _VERSION)


def member_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member that is new or changed."""
    value = ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
    )
    return CoordinatorRecord(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def target_epoch_record(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of a target assignment."""
    value = ShareGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), value, _VERSION)


def target_record(group_id: str, member_id: str, assignment: Assignment) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[TargetPartitions(topic_id=each, partitions=sorted(assignment[each])) for each in sorted(assignment)]
    )
    return CoordinatorRecord(ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, _VERSION)


def current_record(group_id: str, member: ShareMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and assignment."""
    value = ShareGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=_STABLE,
        assigned_partitions=[
            AssignedPartitions(topic_id=each, partitions=sorted(member.assigned[each])) for each in sorted(member.assigned)
        ],
    )
    return CoordinatorRecord(ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def state_partitions_record(group_id: str, partitions: StatePartitions) -> CoordinatorRecord:
    """Return the record of the partitions that have a state, or get or lose one."""
    value = ShareGroupStatePartitionMetadataValue(
        initializing_topics=_stored(partitions.initializing),
        initialized_topics=_stored(partitions.initialized),
        deleting_topics=[StateTopic(topic_id=topic_id, topic_name=name) for topic_id, name in sorted(partitions.deleting.items())],
    )
    return CoordinatorRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), value, _VERSION)


def _stored(partitions: NamedAssignment) -> list[StoredPartitions]:
    return [
        StoredPartitions(topic_id=topic_id, topic_name=each.topic_name, partitions=sorted(each.partitions))
        for topic_id, each in sorted(partitions.items())
    ]


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member."""
    keys = (ShareGroupCurrentMemberAssignmentKey, ShareGroupTargetAssignmentMemberKey, ShareGroupMemberMetadataKey)
    return [CoordinatorRecord(key(group_id=group_id, member_id=member_id), None, _TOMBSTONE) for key in keys]


def group_tombstones(group_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a group without members."""
    keys = (ShareGroupTargetAssignmentMetadataKey, ShareGroupStatePartitionMetadataKey, ShareGroupMetadataKey)
    return [CoordinatorRecord(key(group_id=group_id), None, _TOMBSTONE) for key in keys]
