"""Members of a streams group, and the image of its records.

Members are immutable: a step makes new ones. Only replay changes an image: a step makes records,
and these are replayed.

Invariant: epochs of a group grow. Source: StreamsGroupMember, MemberState,
GroupMetadataManager.replay, StreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple

from minibroker.coordinator.group.member_epochs import JOINS
from minibroker.coordinator.group.modern import ModernImage, Replays
from minibroker.coordinator.group.streams.tasks import NO_HELD_TASKS, HeldTasks, TaskEpochs, Tasks, TaskSets, frozen
from minibroker.coordinator.group.streams.topology import Topology
from minibroker.schemas.internal.streams_group_records import (
    CurrentTasks,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    TargetTasks,
)


class MemberState(IntEnum):
    """The state of a member, as records have it. reconciliation.py has the table."""

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
        """Return this member with the epochs, state and tasks of `other`, which another kind of record has."""
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
