"""How a member gets from the tasks that it has to those that it shall have: what it must give up first, then what others have given up.

    state               what the member is told               its heartbeat brings                           then
    STABLE              all that it shall have                its epoch is that of the target                STABLE
                                                              a newer target, and it owns too much           UNREVOKED_TASKS
                                                              a newer target, some of it is not free         UNRELEASED_TASKS
                                                              a newer target, all of it is free or its own   STABLE
    UNREVOKED_TASKS     what it may keep, in its old epoch    it owns something still, or does not say       UNREVOKED_TASKS
                                                              it gave up: as from STABLE with a newer target
    UNRELEASED_TASKS    what is free of what it shall have    as from STABLE with a newer target
    UNKNOWN             (from the log of a newer Kafka)       it owns nothing: as from STABLE                otherwise
                                                              fenced: FENCED_MEMBER_EPOCH

A task is free for a member to be active at when nobody else is, and no member of its own instance has it in another role; to stand by,
when no member of its own instance has it in any role. What it gave up itself is free only at its next heartbeat.

Invariants
  - a member is given a task to be active at only when nobody has it so: neither as its own nor to give up
  - a member moves on to the epoch of the target when it has given up all that it must

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
    """Which instances have a task: as theirs, or to give up. Looked for among all members: few tasks move at a time."""

    def __init__(self, members: Collection[StreamsMember]) -> None:
        self._members = members

    def may_work(self, process_id: str, task: tuple[str, int]) -> bool:
        """Whether the task is free to be worked at in that instance."""
        return not any(
            _has(held.active, task) or (member.process_id == process_id and (_has(held.standby, task) or _has(held.warmup, task)))
            for member in self._members
            for held in (member.assigned, member.pending_revocation)
        )

    def may_stand_by(self, process_id: str, task: tuple[str, int]) -> bool:
        """Whether it is free to be kept there."""
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
    """What a member shall have, and what stands in its way."""

    epoch: int  #: of the target assignment
    target: Tasks
    owners: Owners


def reconcile(member: StreamsMember, goal: Goal, owned: Tasks | None) -> StreamsMember:
    """The member after a heartbeat that says it owns `owned`; None when it does not say."""
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
    """Tasks of one role: what stays, what must go, what may come; and whether more shall come that is not free."""

    kept: TaskSets
    revoked: TaskSets
    coming: TaskSets
    must_wait: bool


def _advance(member: StreamsMember, goal: Goal, owned: Tasks | None, epoch: int) -> StreamsMember:
    """As far as the target as it may go now, or to `epoch` with what it must give up."""

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
