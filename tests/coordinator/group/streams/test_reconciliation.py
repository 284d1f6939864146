"""Reconciliation, cell by cell of its table, and who stands in whose way."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.group.streams.members import NO_TASKS, HeldTasks, MemberState, StreamsMember, Tasks, TaskSets
from minibroker.coordinator.group.streams.step import Goal, Owners, reconcile
from minibroker.errors import FencedMemberEpoch

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS
ONE: TaskSets = {"0": frozenset({1})}
BOTH: TaskSets = {"0": frozenset({1, 2})}


def active(*partitions: int, epoch: int = 2) -> HeldTasks:
    return HeldTasks({"0": dict.fromkeys(partitions, epoch)}) if partitions else HeldTasks()


def member(name: str = "b", process_id: str = "p", epoch: int = 2, **known: Any) -> StreamsMember:
    return StreamsMember(name, process_id=process_id, member_epoch=epoch)._replace(**known)


def moved(
    of: StreamsMember, target: Tasks, owned: Tasks | None = None, *others: StreamsMember, epoch: int = 3
) -> tuple[int, MemberState, Tasks, Tasks]:
    """Its epoch, its state, what it has and what it must give up."""
    found = reconcile(of, Goal(epoch, target, Owners([of, *others])), owned)
    return found.member_epoch, found.state, found.assigned.tasks, found.pending_revocation.tasks


def test_stable() -> None:
    has_one = member(assigned=active(1))
    assert moved(has_one, Tasks(BOTH), epoch=2) == (2, STABLE, Tasks(ONE), NO_TASKS), "it is where the target is"
    assert moved(has_one, Tasks(BOTH)) == (3, STABLE, Tasks(BOTH), NO_TASKS)
    assert moved(has_one, NO_TASKS) == (2, UNREVOKED, NO_TASKS, Tasks(ONE)), "it does not say that it gave it up"
    assert moved(has_one, NO_TASKS, Tasks(ONE)) == (2, UNREVOKED, NO_TASKS, Tasks(ONE))
    assert moved(has_one, NO_TASKS, NO_TASKS) == (3, STABLE, NO_TASKS, NO_TASKS)


def test_unrevoked() -> None:
    must_give_up = member(state=UNREVOKED, pending_revocation=active(1))
    assert moved(must_give_up, Tasks(BOTH)) == (2, UNREVOKED, NO_TASKS, Tasks(ONE))
    assert moved(must_give_up, Tasks(BOTH), Tasks(ONE)) == (2, UNREVOKED, NO_TASKS, Tasks(ONE))
    gave_up = moved(must_give_up, Tasks(BOTH), NO_TASKS)
    assert gave_up == (3, UNRELEASED, Tasks({"0": frozenset({2})}), NO_TASKS), "what it gave up is free at its next heartbeat"


def test_unknown() -> None:
    unknown = member(state=MemberState.UNKNOWN)
    for owned in (None, Tasks(ONE)):
        with pytest.raises(FencedMemberEpoch):
            moved(unknown, Tasks(ONE), owned)
    assert moved(unknown, Tasks(ONE), NO_TASKS) == (3, STABLE, Tasks(ONE), NO_TASKS)


@pytest.mark.parametrize("is_pending", [False, True])
@pytest.mark.parametrize(
    ("other_role", "other_process", "may_work", "may_stand_by"),
    [
        ("active", "p", False, False),
        ("active", "q", False, True),
        ("standby", "p", False, False),
        ("standby", "q", True, True),
        ("warmup", "p", False, False),
        ("warmup", "q", True, True),
    ],
)
def test_task_waits_for_its_current_owner(
    other_role: str, other_process: str, may_work: bool, may_stand_by: bool, is_pending: bool
) -> None:
    held = {"active": active(1), "standby": HeldTasks(standby=ONE), "warmup": HeldTasks(warmup=ONE)}[other_role]
    other = member("a", other_process, pending_revocation=held) if is_pending else member("a", other_process, assigned=held)
    for target, is_free in ((Tasks(ONE), may_work), (Tasks(standby=ONE), may_stand_by), (Tasks(warmup=ONE), may_stand_by)):
        expected = (3, STABLE, target, NO_TASKS) if is_free else (3, UNRELEASED, NO_TASKS, NO_TASKS)
        assert moved(member(), target, None, other) == expected


def test_standby_becoming_active_is_revoked_first() -> None:
    keeps = member(assigned=HeldTasks(standby=ONE))
    assert moved(keeps, Tasks(ONE)) == (2, UNREVOKED, NO_TASKS, Tasks(standby=ONE))
    assert moved(keeps, Tasks(ONE), NO_TASKS) == (3, UNRELEASED, NO_TASKS, NO_TASKS), "it is its own until that is stored"


def test_tasks_are_assigned_since_the_target_epoch() -> None:
    found = reconcile(member(assigned=active(1)), Goal(3, Tasks(BOTH), Owners([])), None)
    assert found.assigned.active == {"0": {1: 2, 2: 3}}
    assert found.previous_member_epoch == 2
