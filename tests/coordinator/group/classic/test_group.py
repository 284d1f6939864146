"""Cells of the table of coordinator/group/classic/group.py."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.coordinator.group.classic.group import new_member_id
from minibroker.coordinator.group.classic.rebalance import ClassicGroupLimits
from minibroker.coordinator.group.classic.requests import Join, JoinedMember, Leave, Protocol
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from tests.coordinator.group.classic.world import (
    COMPLETING,
    EMPTY,
    PREPARING,
    PROTOCOLS,
    REBALANCE_MS,
    SESSION_MS,
    STABLE,
    World,
    settle,
    stable,
)

# One member


def test_first_member_becomes_leader_of_a_single_member_group() -> None:
    world = World()
    (refused,) = world.join("a")
    assert (refused.error, refused.member_id, world.state) == (MemberIdRequired, "a-1", EMPTY)
    answers = world.join("a", "a-1")
    assert (answers, world.state) == ([], PREPARING)
    world.let_pass(0)
    (result,) = answers
    assert (result.error, result.member_id, result.generation_id, result.leader) == (None, "a-1", 1, "a-1")
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")
    assert result.members == (JoinedMember("a-1", None, b"range of %s"),)
    assert world.state is COMPLETING

    (assigned,) = world.sync("a-1", {"a-1": b"everything"})
    assert (assigned.error, assigned.assignment, assigned.protocol_name) == (None, b"everything", "range")
    assert world.state is STABLE


def test_old_client_joins_without_a_member_id() -> None:
    world = World()
    answers = world.join("a", version=3)
    world.let_pass(0)
    assert [answer.member_id for answer in answers] == ["a-1"]


def test_static_member_joins_without_a_member_id() -> None:
    world = World()
    answers = world.join("a", group_instance_id="i")
    world.let_pass(0)
    assert answers[0].members == (JoinedMember("a-1", "i", b"range of %s"),)


def test_stored_group_metadata() -> None:
    world, (member_id,) = stable("a")
    first, second = world.stored
    assert (first.protocol_type, first.generation, first.protocol, first.leader, first.members) == ("", 0, None, None, [])
    assert (second.protocol_type, second.generation, second.protocol, second.leader) == ("consumer", 1, "range", member_id)
    (member,) = second.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "a", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (SESSION_MS, REBALANCE_MS)
    assert (member.subscription, member.assignment) == (b"range of %s", member_id.encode())

    assert world.leave(member_id) == ["OK"]
    third = world.stored[2]
    assert (third.protocol_type, third.generation, third.protocol, third.leader, third.members) == ("consumer", 2, None, None, [])
    assert world.state is EMPTY


def test_member_ids() -> None:
    join = Join("client", "/h", "consumer", PROTOCOLS, 1, 1)
    assert new_member_id(join).startswith("client-")
    assert new_member_id(join._replace(group_instance_id="instance")).startswith("instance-")
    assert new_member_id(join) != new_member_id(join)
    assert len(new_member_id(join._replace(client_id="c" * 32767)).encode()) <= 32767
    assert len(new_member_id(join._replace(group_instance_id="i" * 32767)).encode()) <= 32767


# Several members


def test_new_member_starts_a_rebalance() -> None:
    world, (a,) = stable("a")
    b, waits_b = world.enter("b")
    assert (waits_b, world.state) == ([], PREPARING)
    assert world.heartbeat(a) == "REBALANCE_IN_PROGRESS"
    assert world.sync(a)[0].error is RebalanceInProgress
    waits_a = world.join("a", a)
    (told_a,), (told_b,) = waits_a, waits_b
    assert (told_a.generation_id, told_a.leader, told_b.generation_id, told_b.leader) == (2, a, 2, a)
    assert ([each.member_id for each in told_a.members], told_b.members) == ([a, b], ())


def test_followers_wait_for_the_leader() -> None:
    world, ids = stable("a", "b", "c")
    a, b, c = ids
    world.enter("d")
    for member_id in ids:
        world.join(member_id[0], member_id)
    assert world.state is COMPLETING
    waits_b, waits_c = world.sync(b), world.sync(c)
    assert (waits_b, waits_c) == ([], [])
    (told_a,) = world.sync(a, {b: b"for b"})
    assert (told_a.assignment, waits_b[0].assignment, waits_c[0].assignment) == (b"", b"for b", b"")
    (late,) = world.sync("d-4")
    assert (late.error, late.assignment) == (None, b"")


def test_unchanged_follower_rejoins_without_a_rebalance() -> None:
    world, (a, b) = stable("a", "b")
    (result,) = world.join("b", b)
    assert (result.error, result.generation_id, result.leader, result.members, world.state) == (None, 1, a, (), STABLE)


def test_changed_follower_starts_a_rebalance() -> None:
    world, (a, b) = stable("a", "b")
    assert world.join("b", b, protocols=(Protocol("range", b"another subscription"),)) == []
    assert world.state is PREPARING
    (result,) = world.join("a", a)
    assert result.members[1] == JoinedMember(b, None, b"another subscription")


def test_rejoining_leader_starts_a_rebalance() -> None:
    world, (a, b) = stable("a", "b")
    assert world.join("a", a) == []
    assert world.state is PREPARING
    assert world.join("b", b)[0].generation_id == 2


def test_rejoin_while_waiting_for_the_assignment() -> None:
    world, (a, b) = stable("a", "b")
    world.join("a", a)
    world.join("b", b)
    assert world.state is COMPLETING
    (told_a,), (told_b,) = world.join("a", a), world.join("b", b)
    assert ([each.member_id for each in told_a.members], told_b.members) == ([a, b], ())
    waits = world.sync(b)
    world.join("b", b, protocols=(Protocol("range", b"another subscription"),))
    assert ([answer.error for answer in waits], world.state) == ([RebalanceInProgress], PREPARING)


def test_retried_request_replaces_the_first_one() -> None:
    world, (a, b) = stable("a", "b")
    first, second = world.join("a", a), world.join("a", a)
    assert ([answer.error for answer in first], second) == ([RebalanceInProgress], [])
    world.join("b", b)
    assert second[0].generation_id == 2
    first_sync, second_sync = world.sync(b), world.sync(b)
    assert ([answer.error for answer in first_sync], second_sync) == ([RebalanceInProgress], [])


def test_oldest_member_becomes_the_next_leader() -> None:
    world, (a, b, c) = stable("a", "b", "c")
    assert world.leave(a) == ["OK"]
    assert world.state is PREPARING
    world.join("c", c)
    (result,) = world.join("b", b)
    assert (result.leader, [each.member_id for each in result.members]) == (b, [b, c])


def test_absent_static_leader_loses_leadership() -> None:
    world = World()
    world.join("a", group_instance_id="i", rebalance_timeout_ms=1_000)
    world.enter("b", rebalance_timeout_ms=1_000)
    world.let_pass(0)
    settle(world, ["a-1", "b-2"])
    waits = world.join("b", "b-2", protocols=PROTOCOLS[:1], rebalance_timeout_ms=1_000)
    world.let_pass(1_000)
    (result,) = waits
    assert (result.generation_id, result.leader, [each.member_id for each in result.members]) == (2, "b-2", ["a-1", "b-2"])


# Who is refused


@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE])
def test_unknown_member_is_refused(state: Any) -> None:
    world = in_state(state)
    assert world.join("x", "stranger")[0].error is UnknownMemberId
    assert world.join("x", "stranger")[0].member_id == "stranger"
    assert world.sync("stranger")[0].error is UnknownMemberId
    assert world.heartbeat("stranger") == "UNKNOWN_MEMBER_ID"
    assert world.leave("stranger", Leave(group_instance_id="nobody"), Leave()) == ["UNKNOWN_MEMBER_ID"] * 3
    assert world.commit(world.generation, "stranger") == "UNKNOWN_MEMBER_ID"
    assert world.state is state


def in_state(state: Any) -> World:
    """A group with member a-1, as far as it has got; without it when it is empty."""
    if state is EMPTY:
        return World()
    world, (a,) = stable("a")
    if state is PREPARING:
        world.enter("b")
    if state is COMPLETING:
        world.join("a", a)
    assert world.state is state
    return world


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
@pytest.mark.parametrize("delta", [-1, 1])
def test_other_generation_is_refused(state: Any, delta: int) -> None:
    world = in_state(state)
    generation = world.generation + delta
    assert world.sync("a-1", generation_id=generation)[0].error is IllegalGeneration
    assert world.heartbeat("a-1", generation) == "ILLEGAL_GENERATION"
    assert world.commit(generation, "a-1") == "ILLEGAL_GENERATION"
    assert world.commit(generation, "a-1", is_transactional=True) == "ILLEGAL_GENERATION"


@pytest.mark.parametrize(
    ("state", "heartbeat", "own", "nobodys"),
    [
        (EMPTY, "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "OK"),
        (PREPARING, "REBALANCE_IN_PROGRESS", "OK", "UNKNOWN_MEMBER_ID"),
        (COMPLETING, "OK", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"),
        (STABLE, "OK", "OK", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_heartbeats_and_commits(state: Any, heartbeat: str, own: str, nobodys: str) -> None:
    world = in_state(state)
    assert world.heartbeat("a-1") == heartbeat
    assert world.commit(world.generation, "a-1") == own
    assert world.commit(-1, "") == nobodys
    assert world.commit(-1, "", is_transactional=True) == "OK"
    assert world.commit(world.generation, "a-1", is_transactional=True) == ("UNKNOWN_MEMBER_ID" if state is EMPTY else "OK")


def test_protocols_without_overlap_are_refused() -> None:
    world, _ = stable("a")
    assert world.join("b", protocols=(Protocol("sticky", b""),))[0].error is InconsistentGroupProtocol
    assert world.join("b", protocol_type="connect")[0].error is InconsistentGroupProtocol
    assert World().join("b", protocols=())[0].error is InconsistentGroupProtocol
    assert World().join("b", protocol_type="")[0].error is InconsistentGroupProtocol
    assert world.state is STABLE


def test_sync_with_another_protocol_is_refused() -> None:
    world, (a,) = stable("a")
    assert world.sync(a, protocol_type="connect")[0].error is InconsistentGroupProtocol
    assert world.sync(a, protocol_name="roundrobin")[0].error is InconsistentGroupProtocol
    assert world.sync(a, protocol_type="consumer", protocol_name="range")[0].assignment == a.encode()


def test_most_preferred_protocol_is_selected() -> None:
    world = World()
    for client, order in (("a", PROTOCOLS), ("b", PROTOCOLS[::-1]), ("c", PROTOCOLS[::-1])):
        world.enter(client, protocols=order)
    world.let_pass(0)
    assert world.group.protocol_name == "roundrobin"
    world.enter("d", protocols=PROTOCOLS[:1])
    for member in list(world.group.members):
        if member.joined is None:
            world.join(member.client_id, member.member_id, protocols=member.protocols)
    assert world.group.protocol_name == "range"  # the one that d can


def test_pending_member_ids_are_limited() -> None:
    world = World(limits=ClassicGroupLimits(max_size=2))
    answers = [world.join(f"c{number}")[0] for number in range(4)]
    assert [each.error for each in answers] == [MemberIdRequired] * 2 + [GroupMaxSizeReached] * 2
    world.join("c0", answers[0].member_id)
    assert world.join("c4")[0].error is MemberIdRequired


def test_a_full_group() -> None:
    world, (a, _) = stable("a", "b", limits=ClassicGroupLimits(max_size=2))
    (refused,) = world.join("c")
    assert (refused.error, refused.member_id, world.state) == (GroupMaxSizeReached, "", STABLE)
    world.leave(a)
    world.enter("c")
    assert world.state is PREPARING
    assert world.join("d")[0].error is MemberIdRequired  # who has joined this generation counts
    assert world.join("b", "b-2") == []
    (refused,) = world.join("d", "d-4")
    assert refused.error is GroupMaxSizeReached
    assert world.state is COMPLETING  # and nobody waits for d any more


# Static members


def test_static_member_rejoins_without_a_rebalance() -> None:
    world = World()
    world.join("a", group_instance_id="one")
    world.join("b", group_instance_id="two")
    world.let_pass(0)
    settle(world, ["a-1", "b-2"])
    (result,) = world.join("b", group_instance_id="two")
    assert (result.error, result.member_id, result.leader, result.members, world.state) == (None, "b-3", "a-1", (), STABLE)
    assert world.sync("b-3")[0].assignment == b"b-2"
    assert [member.member_id for member in world.stored[-1].members] == ["a-1", "b-3"]
    assert world.heartbeat("b-2", group_instance_id="two") == "FENCED_INSTANCE_ID"
    assert world.heartbeat("b-2") == "UNKNOWN_MEMBER_ID"
    assert world.commit(1, "b-2", "two") == "FENCED_INSTANCE_ID"
    assert world.leave(Leave("b-2", "two")) == ["FENCED_INSTANCE_ID"]
    assert world.join("b", "b-2", group_instance_id="two")[0].error is FencedInstanceId


@pytest.mark.parametrize(("version", "leader", "count", "skip"), [(9, "a-3", 2, True), (8, "a-1", 0, False)])
def test_static_leader_rejoins(version: int, leader: str, count: int, skip: bool) -> None:
    world = World()
    world.join("a", group_instance_id="one")
    world.join("b", group_instance_id="two")
    world.let_pass(0)
    settle(world, ["a-1", "b-2"])
    (result,) = world.join("a", group_instance_id="one", version=version)
    assert (result.member_id, result.leader, len(result.members), result.skip_assignment) == ("a-3", leader, count, skip)
    assert world.group.members.leader_id == "a-3"


def test_static_member_rejoining_with_changes_starts_a_rebalance() -> None:
    world = World()
    world.join("a", group_instance_id="one")
    world.join("b", group_instance_id="two")
    world.let_pass(0)
    settle(world, ["a-1", "b-2"])
    assert world.join("b", group_instance_id="two", protocols=PROTOCOLS[1:]) == []
    assert world.state is PREPARING


def test_failed_write_keeps_the_old_static_member_id() -> None:
    world = World()
    world.join("a", group_instance_id="one")
    world.let_pass(0)
    settle(world, ["a-1"])
    world.fails = True
    (result,) = world.join("a", group_instance_id="one")
    assert (result.error, result.member_id) == (NotCoordinator, "")
    assert world.heartbeat("a-1") == "OK"


def test_second_member_with_the_same_instance_id_fences_the_first() -> None:
    world = World()
    first = world.join("a", group_instance_id="one")
    second = world.join("a", group_instance_id="one")
    assert [answer.error for answer in first] == [FencedInstanceId]
    world.let_pass(0)
    assert second[0].member_id == "a-2"
    third = world.join("a", group_instance_id="one")
    assert (third[0].generation_id, world.generation) == (2, 2)


def test_dynamic_member_id_is_not_valid_for_a_static_member() -> None:
    world = World()
    (refused,) = world.join("a")
    assert refused.error is MemberIdRequired
    (result,) = world.join("a", refused.member_id, group_instance_id="one")
    assert result.error is UnknownMemberId  # the client joins again without an id, as static members do
    world.join("b", group_instance_id="one")
    (fenced,) = world.join("a", refused.member_id, group_instance_id="one")
    assert fenced.error is FencedInstanceId
    world.let_pass(10 * SESSION_MS)
    assert len(world.group.members) == 0  # the session of each ended, and no other member took the instance


def test_empty_instance_id_is_not_shared_with_dynamic_members() -> None:
    world = World()
    world.join("a", group_instance_id="")
    world.join("b", version=3)
    assert [member.member_id for member in world.group.members] == ["a-1", "b-2"]
    world.let_pass(10 * SESSION_MS)
    assert len(world.group.members) == 0
    assert world.join("c", group_instance_id="") == []  # waits for its generation


def test_an_administrator_removes_a_static_member() -> None:
    world = World()
    world.join("a", group_instance_id="one")
    world.let_pass(0)
    assert world.leave(Leave(group_instance_id="one")) == ["OK"]
    assert (world.state, world.generation) == (EMPTY, 2)


# Leaving


def test_leaving_member_is_removed_immediately() -> None:
    world, ids = stable("a", "b", "c")
    a, b, c = ids
    assert world.leave(b, "stranger", c) == ["OK", "UNKNOWN_MEMBER_ID", "OK"]
    assert world.state is PREPARING
    assert world.join("a", a)[0].generation_id == 2


def test_leaving_member_waiting_in_join_is_answered() -> None:
    world, (a, _) = stable("a", "b")
    waits = world.join("a", a)
    world.leave(a)
    assert [(answer.error, answer.member_id) for answer in waits] == [(UnknownMemberId, "")]


def test_pending_member_id_may_leave() -> None:
    world, (a,) = stable("a")
    (given,) = world.join("b")
    assert world.leave(given.member_id) == ["OK"]
    assert world.state is STABLE
    (given,) = world.join("b")
    waits = world.join("a", a)
    assert waits == []
    world.leave(given.member_id)
    assert waits[0].generation_id == 2


# What cannot be stored


def test_group_that_cannot_be_stored_rejects_members() -> None:
    world = World()
    world.fails = True
    assert world.join("a")[0].error is NotCoordinator
    world.fails = False
    assert world.enter("a") == ("a-1", [])


def test_assignment_that_cannot_be_stored_is_not_sent() -> None:
    world, (a, b) = stable("a", "b")
    world.join("a", a)
    world.join("b", b)
    waits = world.sync(b)
    world.fails = True
    (result,) = world.sync(a, {b: b"for b"})
    assert (result.error, waits[0].error, world.state) == (NotCoordinator, NotCoordinator, PREPARING)
