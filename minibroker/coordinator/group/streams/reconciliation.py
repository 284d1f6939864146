"""Reconciliation: how a member gets from its present tasks to its target assignment. It first gives up tasks, then gets free ones.

    state               the member has                        its heartbeat                                  next state
    STABLE              its target assignment                 its epoch is that of the target                STABLE
                                                              a newer target, and it owns too much           UNREVOKED_TASKS
                                                              a newer target, some of it is not free         UNRELEASED_TASKS
                                                              a newer target, all of it free or its own      STABLE
    UNREVOKED_TASKS     what it may keep, in its old epoch    still owns some, or does not say               UNREVOKED_TASKS
                                                              gave up: as from STABLE with a newer target
    UNRELEASED_TASKS    the free part of its target           as from STABLE with a newer target
    UNKNOWN             (from the log of a newer Kafka)       it owns nothing: as from STABLE                otherwise
                                                              fenced: FENCED_MEMBER_EPOCH

An active task is free for a member if no member has it active and no member of its instance has it
in another role. A standby is free if no member of its instance has the task in any role. Tasks that
the member itself gave up are free at its next heartbeat.

Invariants
  - a member gets an active task only if no member has it active or must still give it up
  - a member reaches the epoch of the target when it has given up all that it must

Source: CurrentAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from minibroker.coordinator.group.streams.members import MemberState, StreamsMember
from minibroker.coordinator.group.streams.tasks import (
    NO_HELD_TASKS,
    NO_SETS,
    HeldTasks,
    TaskEpochs,
    Tasks,
    TaskSets,
    frozen,
    is_any_of,
)
from minibroker.errors import FencedMemberEpoch


class Owners:
    """The tasks that instances have or must give up. Searched among all members, because few tasks move at a time."""

    def __init__(self, members: Collection[StreamsMember]) -> None:
        self._members = members

    def may_work(self, process_id: str, task: tuple[str, int]) -> bool:
        """Whether a member of that instance may have the task active."""
        return not any(
            _has(held.active, task) or (member.process_id == process_id and (_has(held.standby, task) or _has(held.warmup, task)))
            for member in self._members
            for held in (member.assigned, member.pending_revocation)
        )

    def may_stand_by(self, process_id: str, task: tuple[str, int]) -> bool:
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
    """Return the member after a heartbeat with the tasks that it owns; None if it does not say."""
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
    """Tasks of one role: kept, to give up, and free ones to get. `must_wait`: others of the target are not free."""

    kept: TaskSets
    revoked: TaskSets
    coming: TaskSets
    must_wait: bool


def _advance(member: StreamsMember, goal: Goal, owned: Tasks | None, epoch: int) -> StreamsMember:
    """Move the member towards its target as far as possible, or to `epoch` with the tasks that it must give up."""

    def may_work(task: tuple[str, int]) -> bool:
        return goal.owners.may_work(member.process_id, task)

    def may_stand_by(task: tuple[str, int]) -> bool:
        return goal.owners.may_stand_by(member.process_id, task)

    held, target = member.assigned.tasks, goal.target
    active = _difference(held.active, target.active, may_work)
    standby = _difference(held.standby, target.standby, may_stand_by)
    warmup = _difference(held.warmup, target.warmup, may_stand_by)
    since = member.assigned.active
    revoked = HeldTasks(
        {each: {at: since[each][at] for at in those} for each, those in active.revoked.items()}, standby.revoked, warmup.revoked
    )
    kept = {each: {at: since[each][at] for at in those} for each, those in active.kept.items()}
    if not revoked.is_nothing and (owned is None or is_any_of(owned, revoked.tasks)):
        return _moved(member, MemberState.UNREVOKED_TASKS, epoch, HeldTasks(kept, standby.kept, warmup.kept), revoked)
    for each, those in active.coming.items():
        kept[each] = {**kept.get(each, {}), **dict.fromkeys(sorted(those), goal.epoch)}
    assigned = HeldTasks(kept, _both(standby), _both(warmup))
    must_wait = active.must_wait or standby.must_wait or warmup.must_wait
    return _moved(member, MemberState.UNRELEASED_TASKS if must_wait else MemberState.STABLE, goal.epoch, assigned, NO_HELD_TASKS)


def _difference(held: TaskSets, target: TaskSets, is_free: Callable[[tuple[str, int]], bool]) -> _Difference:
    nothing: frozenset[int] = frozenset()
    missing = {each: target[each] - held.get(each, nothing) for each in target}
    coming = {each: frozenset(at for at in those if is_free((each, at))) for each, those in missing.items()}
    return _Difference(
        kept=frozen({each: those & target.get(each, nothing) for each, those in held.items()}),
        revoked=frozen({each: those - target.get(each, nothing) for each, those in held.items()}),
        coming=frozen(coming),
        must_wait=coming != missing,
    )


def _both(difference: _Difference) -> TaskSets:
    kept, coming = difference.kept, difference.coming
    if not coming:
        return kept or NO_SETS
    return {each: kept.get(each, frozenset()) | coming.get(each, frozenset()) for each in (*kept, *(coming.keys() - kept.keys()))}


def _moved(member: StreamsMember, state: MemberState, epoch: int, assigned: HeldTasks, revoked: HeldTasks) -> StreamsMember:
    return member._replace(
        state=state,
        assigned=assigned,
        pending_revocation=revoked,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
    )
