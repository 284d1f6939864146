"""Records of `__consumer_offsets` for streams groups. `members.py` replays them.

    StreamsGroupMetadata                     the group's epoch
    StreamsGroupTopology                     the topology of the application
    StreamsGroupMemberMetadata               what a member says of itself
    StreamsGroupTargetAssignmentMetadata     the epoch of the target assignment
    StreamsGroupTargetAssignmentMember       the target assignment of a member
    StreamsGroupCurrentMemberAssignment      the tasks that a member has, and must give up

Source: StreamsCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from minibroker.coordinator.group.streams.members import StreamsMember
from minibroker.coordinator.group.streams.tasks import TaskEpochs, Tasks, TaskSets
from minibroker.coordinator.group.streams.topology import Topology
from minibroker.schemas.internal.streams_group_records import (
    AssignmentConfig,
    CurrentTasks,
    MemberEndpoint,
    MemberTag,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    TargetTasks,
)
from minibroker.storage.record_frame import CoordinatorRecord

_VERSION: Final = 0
_TOMBSTONE: Final = -1


def epoch_record(
    group_id: str, epoch: int, metadata_hash: int, validated_topology_epoch: int, assignment_configs: Mapping[str, str]
) -> CoordinatorRecord:
    """Return the record of a new epoch of the group."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[AssignmentConfig(key=name, value=assignment_configs[name]) for name in sorted(assignment_configs)],
    )
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), value, _VERSION)


def topology_record(group_id: str, topology: Topology) -> CoordinatorRecord:
    """Return the record of the topology, which the first member sets."""
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), topology.stored, _VERSION)


def member_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member that is new or changed."""
    endpoint = member.user_endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else MemberEndpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[MemberTag(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)],
    )
    return CoordinatorRecord(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def target_epoch_record(group_id: str, assignment_epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of a target assignment."""
    value = StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=assignment_epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value, _VERSION)


def target_record(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    active, standby, warmup = ([TargetTasks(subtopology_id=each, partitions=sorted(sets[each])) for each in sorted(sets)] for sets in tasks)
    value = StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)
    return CoordinatorRecord(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value, _VERSION)


def current_record(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's epoch and tasks."""
    assigned, revoked = member.assigned, member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_with_epochs(assigned.active),
        standby_tasks=_without_epochs(assigned.standby),
        warmup_tasks=_without_epochs(assigned.warmup),
        active_tasks_pending_revocation=_with_epochs(revoked.active),
        standby_tasks_pending_revocation=_without_epochs(revoked.standby),
        warmup_tasks_pending_revocation=_without_epochs(revoked.warmup),
    )
    return CoordinatorRecord(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value, _VERSION)


def _with_epochs(tasks: TaskEpochs) -> list[CurrentTasks]:
    return [
        CurrentTasks(subtopology_id=each, partitions=sorted(epochs), assignment_epochs=[epochs[at] for at in sorted(epochs)])
        for each, epochs in sorted(tasks.items())
    ]


def _without_epochs(tasks: TaskSets) -> list[CurrentTasks]:
    return [CurrentTasks(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def _tombstone(key: Any) -> CoordinatorRecord:
    return CoordinatorRecord(key, None, _TOMBSTONE)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """Return the tombstones of a member."""
    keys = (StreamsGroupCurrentMemberAssignmentKey, StreamsGroupTargetAssignmentMemberKey, StreamsGroupMemberMetadataKey)
    return [_tombstone(key(group_id=group_id, member_id=member_id)) for key in keys]


def group_tombstones(group_id: str, member_ids: Iterable[str] = ()) -> list[CoordinatorRecord]:
    """Return the tombstones of a group in the order of Apache Kafka. It normally has no members."""
    ids = list(member_ids)
    return [
        *(_tombstone(StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=each)) for each in ids),
        *(_tombstone(StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=each)) for each in ids),
        _tombstone(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)),
        *(_tombstone(StreamsGroupMemberMetadataKey(group_id=group_id, member_id=each)) for each in ids),
        _tombstone(StreamsGroupMetadataKey(group_id=group_id)),
        _tombstone(StreamsGroupTopologyKey(group_id=group_id)),
    ]
