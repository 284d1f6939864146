"""Members of a streams group, their tasks and records, and the image that the records replay into.

A task is one subtopology of the application at one partition. The member with the active task
processes it. A standby keeps a copy of its state. A warm-up would become active later, but Apache
Kafka 4.3.1 assigns no warm-ups.

Members are immutable: a step creates new ones. Only replay changes an image: a step creates
records, and these are replayed.

    StreamsGroupMetadata                     the group's epoch
    StreamsGroupTopology                     the topology of the application
    StreamsGroupMemberMetadata               the fields that a member sends
    StreamsGroupTargetAssignmentMetadata     the epoch of the target assignment
    StreamsGroupTargetAssignmentMember       the target assignment of a member
    StreamsGroupCurrentMemberAssignment      the tasks that a member has, and must give up

Invariant: epochs of a group grow.

Source: TasksTuple, TasksTupleWithEpochs, StreamsGroupMember, MemberState,
GroupMetadataManager.replay, StreamsGroup, StreamsCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple

from minibroker.coordinator.group.modern import JOINS, ModernImage, Replays
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

TaskSets = Mapping[str, frozenset[int]]  #: partitions by subtopology; immutable, without subtopologies that have no partitions
TaskEpochs = Mapping[str, Mapping[int, int]]  #: likewise, with the member epoch at which the member got each task

NO_SETS: Final[TaskSets] = {}
NO_EPOCHS: Final[TaskEpochs] = {}


class Tasks(NamedTuple):
    """The tasks of one member."""

    active: TaskSets = NO_SETS
    standby: TaskSets = NO_SETS
    warmup: TaskSets = NO_SETS


class HeldTasks(NamedTuple):
    """The tasks that a member has, or must give up."""

    active: TaskEpochs = NO_EPOCHS
    standby: TaskSets = NO_SETS
    warmup: TaskSets = NO_SETS

    @property
    def tasks(self) -> Tasks:
        """The tasks without their epochs."""
        return Tasks({each: frozenset(epochs) for each, epochs in self.active.items()}, self.standby, self.warmup)

    @property
    def is_nothing(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


NO_TASKS: Final = Tasks()
NO_HELD_TASKS: Final = HeldTasks()


def frozen(tasks: Mapping[str, Iterable[int]]) -> TaskSets:
    """Return task sets without subtopologies that have no partitions."""
    return {subtopology_id: frozenset(partitions) for subtopology_id, partitions in tasks.items() if partitions}


def is_any_of(owned: Tasks, tasks: Tasks) -> bool:
    """Whether a task in `owned` is also in `tasks`, in the same role."""
    return any(
        not partitions.isdisjoint(in_tasks.get(subtopology_id, frozenset()))
        for in_owned, in_tasks in zip(owned, tasks, strict=True)
        for subtopology_id, partitions in in_owned.items()
    )


def is_part_of(owned: Tasks, tasks: Tasks) -> bool:
    """Whether all tasks in `owned` are also in `tasks`, in the same role."""
    return all(
        partitions <= in_tasks.get(subtopology_id, frozenset())
        for in_owned, in_tasks in zip(owned, tasks, strict=True)
        for subtopology_id, partitions in in_owned.items()
    )


class MemberState(IntEnum):
    """The state of a member, as records have it. step.py has the table."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class StreamsMember(NamedTuple):
    """One member."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""  #: of its instance of the application
    user_endpoint: tuple[str, int] | None = None  #: host and port for interactive queries
    client_tags: Mapping[str, str] = {}  #: immutable
    member_epoch: int = JOINS
    previous_member_epoch: int = JOINS
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS
    pending_revocation: HeldTasks = NO_HELD_TASKS

    def with_progress_of(self, other: StreamsMember) -> StreamsMember:
        """Return this member with the epochs, state and tasks of `other`, which are in a record of their own."""
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


NOT_VALIDATED: Final = -1  #: the validated epoch of a topology that is not ready
_STATES: Final = {state.value: state for state in MemberState}


class StreamsGroupImage(ModernImage[StreamsMember, Tasks]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("assignment_configs", "topology", "validated_topology_epoch")

    def __init__(self) -> None:
        super().__init__()
        self.validated_topology_epoch = NOT_VALIDATED
        self.assignment_configs: Mapping[str, str] = {}  #: the settings of the present epoch
        self.topology: Topology | None = None

    @staticmethod
    def target_of(value: Any) -> Tasks:
        """Decode a target assignment."""
        return Tasks(_sets(value.active_tasks), _sets(value.standby_tasks), _sets(value.warmup_tasks))

    def _replay_epoch(self, key: Any, value: Any) -> None:
        self.replay_epoch(key, value)
        self.validated_topology_epoch = NOT_VALIDATED if value is None else value.validated_topology_epoch
        configs = None if value is None else value.last_assignment_configs
        self.assignment_configs = {each.key: each.value for each in configs or ()}

    def _replay_topology(self, _: Any, value: Any) -> None:
        self.topology = None if value is None else Topology(value)

    def _replay_member(self, key: Any, value: Any) -> None:
        if value is None:
            self.members.pop(key.member_id, None)
            return
        endpoint = value.user_endpoint
        described = StreamsMember(
            member_id=key.member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags={each.key: each.value for each in value.client_tags},
        )
        self.members[key.member_id] = described.with_progress_of(self.members.get(key.member_id, described))

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is None:
            if before is not None:
                self.members[key.member_id] = before.with_progress_of(StreamsMember(key.member_id))
            return
        active, revoked = value.active_tasks, value.active_tasks_pending_revocation
        self.members[key.member_id] = (before or StreamsMember(key.member_id))._replace(
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=_STATES.get(value.state, MemberState.UNKNOWN),
            assigned=HeldTasks(_epochs(active, value.member_epoch), _sets(value.standby_tasks), _sets(value.warmup_tasks)),
            pending_revocation=HeldTasks(
                _epochs(revoked, value.member_epoch),
                _sets(value.standby_tasks_pending_revocation),
                _sets(value.warmup_tasks_pending_revocation),
            ),
        )

    replays: ClassVar[Replays] = {
        StreamsGroupMetadataKey: _replay_epoch,
        StreamsGroupTopologyKey: _replay_topology,
        StreamsGroupMemberMetadataKey: _replay_member,
        StreamsGroupTargetAssignmentMetadataKey: ModernImage.replay_target_epoch,
        StreamsGroupTargetAssignmentMemberKey: ModernImage.replay_target,
        StreamsGroupCurrentMemberAssignmentKey: _replay_current,
    }


def _sets(stored: Sequence[TargetTasks | CurrentTasks]) -> TaskSets:
    return frozen({each.subtopology_id: each.partitions for each in stored})


def _epochs(stored: Sequence[CurrentTasks], member_epoch: int) -> TaskEpochs:
    """Decode tasks with epochs. A record may lack the epochs."""
    found = {}
    for each in stored:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found


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
