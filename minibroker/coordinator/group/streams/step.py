"""A step of a streams group: the records of one request or time-out, and a copy of the group's image that includes them.

The image itself changes when the records are stored.

    a member joins, leaves or changes; a topic or a setting of the       the group has a new epoch
      assignment changed
    the epoch of the target assignment is older, and it may be made      there is a new target assignment, for that epoch
    a member's epoch is older                                            its next heartbeat reconciles it

Reconciliation brings a member from its present tasks to its target assignment. The member first
gives up tasks, then gets free ones.

    state               the member has                        its heartbeat                                  next state
    STABLE              its target assignment                 its epoch is that of the target                STABLE
                                                              a newer target, and it owns too much           UNREVOKED_TASKS
                                                              a newer target, some of it is not free         UNRELEASED_TASKS
                                                              a newer target, all of it free or its own      STABLE
    UNREVOKED_TASKS     what it may keep, in its old epoch    still owns some, or does not list them         UNREVOKED_TASKS
                                                              gave up: as from STABLE with a newer target
    UNRELEASED_TASKS    the free part of its target           as from STABLE with a newer target
    UNKNOWN             (from the log of a newer Kafka)       it owns nothing: as from STABLE                otherwise
                                                              fenced: FENCED_MEMBER_EPOCH

An active task is free for a member if no member has it active and no member of its instance has it
in another role. A standby is free if no member of its instance has the task in any role. Tasks that
the member itself gave up are free at its next heartbeat.

Invariants
  - a member gets an active task only if no member has it active or must still give it up
  - a member reaches the epoch of the target when it has given up all tasks that it must

Source: GroupMetadataManager, TargetAssignmentBuilder, CurrentAssignmentBuilder of Apache Kafka
4.3.1; KIP-1071, KIP-1263.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from minibroker.coordinator.group.modern import NEVER, ModernStep
from minibroker.coordinator.group.streams.assignor import MemberSpec, assign_sticky
from minibroker.coordinator.group.streams.internal_topics import ConfiguredTopology
from minibroker.coordinator.group.streams.members import (
    NO_HELD_TASKS,
    NO_SETS,
    NO_TASKS,
    NOT_VALIDATED,
    HeldTasks,
    MemberState,
    StreamsGroupImage,
    StreamsMember,
    TaskEpochs,
    Tasks,
    TaskSets,
    current_record,
    epoch_record,
    frozen,
    is_any_of,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topology_record,
)
from minibroker.coordinator.group.streams.topology import Topology
from minibroker.errors import FencedMemberEpoch, InvalidRequest


class Owners:
    """The tasks that instances have or must give up.

    Searched among all members, because few tasks move at a time.
    """

    def __init__(self, members: Collection[StreamsMember]) -> None:
        self._members = members

    def may_be_active(self, process_id: str, task: tuple[str, int]) -> bool:
        """Whether a member of that instance may have the task active."""
        return not any(
            _has(held.active, task) or (member.process_id == process_id and (_has(held.standby, task) or _has(held.warmup, task)))
            for member in self._members
            for held in (member.assigned, member.pending_revocation)
        )

    def may_be_standby(self, process_id: str, task: tuple[str, int]) -> bool:
        """Whether a member of that instance may have the task as a standby."""
        return not any(
            _has(role, task)
            for member in self._members
            if member.process_id == process_id
            for held in (member.assigned, member.pending_revocation)
            for role in held
        )


def _has(tasks: TaskSets | TaskEpochs, task: tuple[str, int]) -> bool:
    subtopology_id, partition = task
    return partition in tasks.get(subtopology_id, ())


class Goal(NamedTuple):
    """The target of a member, and the owners of tasks in it."""

    epoch: int  #: of the target assignment
    target: Tasks
    owners: Owners


def reconcile(member: StreamsMember, goal: Goal, owned: Tasks | None) -> StreamsMember:
    """Return the member after a heartbeat.

    `owned` are the tasks that it owns; None if the heartbeat does not list them.
    """
    if member.is_reconciled(goal.epoch):
        return member
    epoch = member.member_epoch
    if member.state is MemberState.UNREVOKED_TASKS:
        if owned is None or is_any_of(owned, member.pending_revocation.tasks):
            return member
        epoch += 1
    elif member.state is MemberState.UNKNOWN:
        if owned is None or any(owned):
            raise FencedMemberEpoch("The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.")
        epoch = goal.epoch
    return _advance(member, goal, owned, epoch)


class _Difference(NamedTuple):
    """Tasks of one role: kept ones, revoked ones, and free ones that are added.

    `must_wait`: other tasks of the target are not free.
    """

    kept: TaskSets
    revoked: TaskSets
    added: TaskSets
    must_wait: bool


def _advance(member: StreamsMember, goal: Goal, owned: Tasks | None, epoch: int) -> StreamsMember:
    """Move the member towards its target as far as possible, or to `epoch` with the tasks that it must give up."""

    def may_be_active(task: tuple[str, int]) -> bool:
        return goal.owners.may_be_active(member.process_id, task)

    def may_be_standby(task: tuple[str, int]) -> bool:
        return goal.owners.may_be_standby(member.process_id, task)

    held, target = member.assigned.tasks, goal.target
    active = _difference(held.active, target.active, may_be_active)
    standby = _difference(held.standby, target.standby, may_be_standby)
    warmup = _difference(held.warmup, target.warmup, may_be_standby)
    revoked = HeldTasks(_with_epochs_of(member, active.revoked), standby.revoked, warmup.revoked)
    kept = _with_epochs_of(member, active.kept)
    if not revoked.is_nothing and (owned is None or is_any_of(owned, revoked.tasks)):
        return _moved(member, MemberState.UNREVOKED_TASKS, epoch, HeldTasks(kept, standby.kept, warmup.kept), revoked)
    for subtopology_id, partitions in active.added.items():
        kept[subtopology_id] = {**kept.get(subtopology_id, {}), **dict.fromkeys(sorted(partitions), goal.epoch)}
    assigned = HeldTasks(kept, _kept_and_added(standby), _kept_and_added(warmup))
    must_wait = active.must_wait or standby.must_wait or warmup.must_wait
    return _moved(member, MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE, goal.epoch, assigned, NO_HELD_TASKS)


def _with_epochs_of(member: StreamsMember, tasks: TaskSets) -> dict[str, Mapping[int, int]]:
    epochs = member.assigned.active
    return {each: {partition: epochs[each][partition] for partition in partitions} for each, partitions in tasks.items()}


def _difference(held: TaskSets, target: TaskSets, is_free: Callable[[tuple[str, int]], bool]) -> _Difference:
    nothing: frozenset[int] = frozenset()
    missing = {each: target[each] - held.get(each, nothing) for each in target}
    added = {each: frozenset(partition for partition in partitions if is_free((each, partition))) for each, partitions in missing.items()}
    return _Difference(
        kept=frozen({each: partitions & target.get(each, nothing) for each, partitions in held.items()}),
        revoked=frozen({each: partitions - target.get(each, nothing) for each, partitions in held.items()}),
        added=frozen(added),
        must_wait=added != missing,
    )


def _kept_and_added(difference: _Difference) -> TaskSets:
    kept, added = difference.kept, difference.added
    if not added:
        return kept or NO_SETS
    return {each: kept.get(each, frozenset()) | added.get(each, frozenset()) for each in (*kept, *(added.keys() - kept.keys()))}


def _moved(member: StreamsMember, state: MemberState, epoch: int, assigned: HeldTasks, revoked: HeldTasks) -> StreamsMember:
    return member._replace(
        state=state,
        assigned=assigned,
        pending_revocation=revoked,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
    )


NUM_STANDBY_REPLICAS: Final = "num.standby.replicas"  #: a setting of the assignment


class StreamsGroupStep(ModernStep[StreamsGroupImage]):
    """The records of one step, and the image that includes them."""

    # Members and topology

    def update(self, member: StreamsMember) -> bool:
        """Record a member that is new or changed. Return whether it was."""
        before = self.image.members.get(member.member_id)
        if before is not None and before == member.with_progress_of(before):
            return False
        self._write(member_record(self._group_id, member))
        return True

    def initialize(self, requested: Topology | None) -> Topology:
        """Return the topology of the group: that of its first member.

        Raise InvalidRequest for a different one.
        """
        known = self.image.topology
        if known is None:
            if requested is None:
                raise InvalidRequest("The group has no topology yet.")
            self._write(topology_record(self._group_id, requested))
            return requested
        if requested is not None and requested.epoch >= known.epoch and not known.is_same(requested):
            raise InvalidRequest("Topology updates are not supported yet.")
        return known

    def remove(self, member_id: str) -> None:
        """Remove a member, and start a new epoch."""
        self._write(*member_tombstones(self._group_id, member_id))
        image = self.image
        self._write_epoch(image.metadata_hash, image.validated_topology_epoch, image.assignment_configs)

    # Epochs and assignments

    def follow(self, metadata_hash: int, configured: ConfiguredTopology, standby_count: int, *, has_changed: bool) -> None:
        """Start a new epoch if members, topics, settings or the readiness of the topology changed."""
        image = self.image
        configs = {NUM_STANDBY_REPLICAS: str(standby_count)}
        validated = image.topology.epoch if image.topology is not None and configured.is_ready else NOT_VALIDATED
        before = (image.metadata_hash, image.validated_topology_epoch, image.assignment_configs)
        if has_changed or before != (metadata_hash, validated, configs):
            self._write_epoch(metadata_hash, validated, configs)

    def _write_epoch(self, metadata_hash: int, validated_topology_epoch: int, configs: Mapping[str, str]) -> None:
        epoch = self.image.epoch + 1
        self._write(epoch_record(self._group_id, epoch, metadata_hash, validated_topology_epoch, configs))

    def assign(self, configured: ConfiguredTopology, standby_count: int, interval_ms: int) -> bool:
        """Create the target assignment of this epoch, unless it exists.

        Return False if the last one is younger than the interval.
        """
        image = self.image
        if image.assignment_epoch >= image.epoch:
            return True
        if image.assignment_timestamp_ms != NEVER and 0 <= self._now_ms - image.assignment_timestamp_ms < interval_ms:
            return False
        specs = {
            member_id: MemberSpec(member.process_id, image.targets.get(member_id, NO_TASKS)) for member_id, member in image.members.items()
        }
        subtopologies = configured.subtopologies if configured.is_ready else {}
        for member_id, target in assign_sticky(specs, subtopologies, standby_count).items():
            if image.targets.get(member_id) != target:
                self._write(target_record(self._group_id, member_id, target))
        self._write(target_epoch_record(self._group_id, image.epoch, self._now_ms))
        return True

    def reconcile(self, member_id: str, owned: Tasks | None, *, is_delayed: bool) -> StreamsMember:
        """Reconcile a member with its target as far as possible; with no tasks while the first assignment is delayed."""
        image = self.image
        member = image.members[member_id]
        if member.is_reconciled(image.assignment_epoch):
            return member  # the usual case, without looking for owners of tasks
        target = NO_TASKS if is_delayed else image.targets.get(member_id, NO_TASKS)
        moved = reconcile(member, Goal(image.assignment_epoch, target, Owners(image.members.values())), owned)
        if moved != member:
            self._write(current_record(self._group_id, moved))
        return moved
