"""The table of `reconciliation.py`, cell by cell."""

from __future__ import annotations

from uuid import UUID

import pytest

from minibroker.coordinator.group.consumer.members import ConsumerMember, MemberState
from minibroker.coordinator.group.consumer.reconciliation import Goal, Owners, is_part_of, reconcile
from minibroker.coordinator.group.modern import NOTHING, Assignment, Epochs
from minibroker.errors import FencedMemberEpoch

STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState
T, U = UUID(int=1), UUID(int=2)


def member(state: MemberState, assigned: Epochs, revoked: Epochs | None = None, *, epoch: int = 5) -> ConsumerMember:
    return ConsumerMember(
        "a", member_epoch=epoch, previous_member_epoch=4, state=state, assigned=assigned, pending_revocation=revoked or {}
    )


def goal(*wanted: int, epoch: int = 6, owners: Owners | None = None, subscribed: frozenset[UUID] = frozenset([T, U])) -> Goal:
    return Goal(epoch, {T: frozenset(wanted)} if wanted else NOTHING, subscribed, owners or {})


def owned(*partitions: int) -> Assignment:
    return {T: frozenset(partitions)} if partitions else NOTHING


def place(found: ConsumerMember) -> tuple[MemberState, int, int, Epochs, Epochs]:
    return found.state, found.member_epoch, found.previous_member_epoch, found.assigned, found.pending_revocation


def test_stable_at_the_target_epoch() -> None:
    stable = member(STABLE, {T: {0: 5}}, epoch=6)
    assert reconcile(stable, goal(0, 1), None) is stable


def test_newer_target_all_free() -> None:
    found = reconcile(member(STABLE, {T: {0: 5}}), goal(0, 1), None)
    assert place(found) == (STABLE, 6, 5, {T: {0: 5, 1: 6}}, {})


def test_newer_target_changes_only_the_epoch() -> None:
    assert place(reconcile(member(STABLE, {T: {0: 5}}), goal(0), None)) == (STABLE, 6, 5, {T: {0: 5}}, {})


def test_newer_target_with_unreleased_partitions() -> None:
    found = reconcile(member(STABLE, {T: {0: 5}}), goal(0, 1, 2, owners={(T, 0): "a", (T, 1): "b"}), None)
    assert place(found) == (UNRELEASED, 6, 5, {T: {0: 5, 2: 6}}, {})


@pytest.mark.parametrize("says", [None, owned(0, 1), owned(1)])
def test_newer_target_requires_revocation(says: Assignment | None) -> None:
    found = reconcile(member(STABLE, {T: {0: 5, 1: 5}}), goal(0, 2), says)
    assert place(found) == (UNREVOKED, 5, 5, {T: {0: 5}}, {T: {1: 5}})


def test_newer_target_already_revoked() -> None:
    assert place(reconcile(member(STABLE, {T: {0: 5, 1: 5}}), goal(0, 2), owned(0))) == (STABLE, 6, 5, {T: {0: 5, 2: 6}}, {})


@pytest.mark.parametrize("says", [None, owned(0, 1)])
def test_unrevoked_member_has_not_revoked(says: Assignment | None) -> None:
    unrevoked = member(UNREVOKED, {T: {0: 5}}, {T: {1: 5}})
    assert reconcile(unrevoked, goal(0, 2), says) is unrevoked


def test_unrevoked_member_has_revoked() -> None:
    found = reconcile(member(UNREVOKED, {T: {0: 5}}, {T: {1: 5}}), goal(0, 2), owned(0))
    assert place(found) == (STABLE, 6, 5, {T: {0: 5, 2: 6}}, {})


def test_unrevoked_partition_is_assigned_again() -> None:
    """What it was to give up is its own to be given."""
    found = reconcile(member(UNREVOKED, {T: {0: 5}}, {T: {1: 5}}), goal(0, 1, owners={(T, 0): "a", (T, 1): "a"}), owned(0))
    assert place(found) == (STABLE, 6, 5, {T: {0: 5, 1: 6}}, {})


def test_unrevoked_member_must_revoke_more() -> None:
    found = reconcile(member(UNREVOKED, {T: {0: 5, 2: 5}}, {T: {1: 5}}), goal(0), owned(0, 2))
    assert place(found) == (UNREVOKED, 5, 5, {T: {0: 5}}, {T: {2: 5}})


def test_unreleased_member_waits_for_partitions() -> None:
    waiting = member(UNRELEASED, {T: {0: 5}}, epoch=6)
    assert reconcile(waiting, goal(0, 1, owners={(T, 1): "b"}), None) is waiting
    assert place(reconcile(waiting, goal(0, 1), None)) == (STABLE, 6, 6, {T: {0: 5, 1: 6}}, {})


def test_unknown() -> None:
    unknown = member(UNKNOWN, {T: {0: 5}})
    for says in (None, owned(0)):
        with pytest.raises(FencedMemberEpoch):
            reconcile(unknown, goal(0), says)
    assert place(reconcile(unknown, goal(0), owned())) == (STABLE, 6, 5, {T: {0: 5}}, {})


@pytest.mark.parametrize("epoch", [5, 6])
def test_unsubscribed_topic_is_revoked(epoch: int) -> None:
    """Also where a target that is older than the subscription has it."""
    only_u = frozenset([U])
    both = member(STABLE, {T: {0: 5}, U: {0: 5}})
    aim = Goal(epoch, {T: frozenset([0, 1]), U: frozenset([0])}, only_u, {})
    assert place(reconcile(both, aim, None)) == (UNREVOKED, 5, 5, {U: {0: 5}}, {T: {0: 5}})
    found = reconcile(both, aim, {U: frozenset([0])})
    assert place(found) == (STABLE, epoch, 5, {U: {0: 5}}, {})
    unrevoked = member(UNREVOKED, {T: {0: 5}, U: {0: 5}}, {T: {1: 4}})
    assert place(reconcile(unrevoked, aim, None)) == (UNREVOKED, 5, 5, {U: {0: 5}}, {T: {0: 5, 1: 4}})


def test_part_of() -> None:
    assert not is_part_of(None, {T: {0: 1}})
    assert is_part_of({}, {})
    assert is_part_of(owned(0), {T: {0: 1, 1: 1}})
    assert not is_part_of(owned(0, 2), {T: {0: 1, 1: 1}})
    assert not is_part_of(owned(0), {})
