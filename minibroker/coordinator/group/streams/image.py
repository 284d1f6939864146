"""What the records of one streams group say. Nothing else changes it: a step writes records, and they are replayed here.

Invariant: epochs of a group grow. Source: GroupMetadataManager.replay, StreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from minibroker.coordinator.group.modern import ModernImage, Replays
from minibroker.coordinator.group.streams.members import Member, MemberState
from minibroker.coordinator.group.streams.tasks import HeldTasks, TaskEpochs, Tasks, TaskSets, frozen
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

NOT_VALIDATED: Final = -1  #: the epoch of a topology whose topics are not as they must be
_STATES: Final = {state.value: state for state in MemberState}


class GroupImage(ModernImage[Member, Tasks]):
    """One group. Attributes are for reading; `replay` writes them."""

    __slots__ = ("assignment_configs", "topology", "validated_topology_epoch")

    def __init__(self) -> None:
        super().__init__()
        self.validated_topology_epoch = NOT_VALIDATED
        self.assignment_configs: Mapping[str, str] = {}  #: settings that the epoch is of
        self.topology: Topology | None = None

    @staticmethod
    def target_of(value: Any) -> Tasks:
        """What its record says."""
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
        said = Member(
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
        self.members[key.member_id] = said.with_progress_of(self.members.get(key.member_id, said))

    def _replay_current(self, key: Any, value: Any) -> None:
        before = self.members.get(key.member_id)
        if value is None:
            if before is not None:
                self.members[key.member_id] = before.with_progress_of(Member(key.member_id))
            return
        active, revoked = value.active_tasks, value.active_tasks_pending_revocation
        self.members[key.member_id] = (before or Member(key.member_id))._replace(
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
    """A record may not tell since when a task is the member's."""
    found = {}
    for each in stored:
        epochs = each.assignment_epochs
        if epochs is None or len(epochs) != len(each.partitions):
            epochs = [member_epoch] * len(each.partitions)
        if each.partitions:
            found[each.subtopology_id] = dict(zip(each.partitions, epochs, strict=True))
    return found
