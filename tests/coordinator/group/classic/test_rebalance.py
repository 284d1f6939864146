"""What time does to a classic group; a group that the log knows."""

from __future__ import annotations

from functools import partial

import pytest

from minibroker.clock import ManualClock
from minibroker.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, ClassicGroupLimits
from minibroker.coordinator.group.classic.requests import Protocol
from minibroker.errors import InconsistentGroupProtocol, NotCoordinator, UnknownMemberId
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
from tests.support.opcodes import count_opcodes
from tests.support.turns import calls_in


def test_dead_member_is_removed_at_session_timeout() -> None:
    world, (a, b) = stable("a", "b")
    world.let_pass(SESSION_MS // 2)
    assert world.heartbeat(a) == "OK"
    world.let_pass(SESSION_MS // 2 - 1)
    assert world.state is STABLE
    world.let_pass(1)
    assert world.state is PREPARING
    assert world.heartbeat(b) == "UNKNOWN_MEMBER_ID"
    assert world.join("a", a)[0].generation_id == 2


def test_commit_counts_as_a_heartbeat() -> None:
    world, (a,) = stable("a")
    for _ in range(3):
        world.let_pass(SESSION_MS - 1)
        assert world.commit(1, a) == "OK"
    assert world.state is STABLE
    world.let_pass(SESSION_MS - 1)
    assert world.commit(1, a, is_transactional=True) == "OK"
    world.let_pass(1)
    assert (world.state, world.generation) == (EMPTY, 2)


def test_clock_jump_removes_no_member() -> None:
    world, _ = stable("a")
    world.clock.jump(24 * 60 * 60 * 1000)
    world.let_pass(SESSION_MS - 1)
    assert world.state is STABLE


def test_waiting_member_is_not_removed() -> None:
    world, (a, b) = stable("a", "b")
    waits = world.join("a", a)
    for _ in range(5):
        world.let_pass(SESSION_MS - 1)
        assert world.heartbeat(b) == "REBALANCE_IN_PROGRESS"
    assert waits == []
    world.let_pass(SESSION_MS)
    assert waits[0].generation_id == 2  # b was expelled
    world.let_pass(SESSION_MS - 1)
    assert world.heartbeat(a) == "OK"
    world.let_pass(SESSION_MS - 1)
    assert world.state is COMPLETING


def test_member_not_joining_in_time_is_removed() -> None:
    world, (a, b) = stable("a", "b")
    waits = world.join("a", a)
    for _ in range(REBALANCE_MS // 5_000):
        world.let_pass(5_000)
        world.heartbeat(b)
    (result,) = waits
    assert (result.generation_id, [each.member_id for each in result.members]) == (2, [a])
    assert world.heartbeat(b) == "UNKNOWN_MEMBER_ID"


def test_members_that_join_again_in_order_cost_the_same_early_and_late() -> None:
    clients = [f"client-{number}" for number in range(60)]
    world, ids = stable(*clients)
    costs = [count_opcodes(partial(world.join, *each)) for each in zip(clients[:-1], ids, strict=False)]
    assert world.state is PREPARING
    assert costs[-1] <= 1.1 * costs[1]


def test_rebalance_uses_the_longest_timeout() -> None:
    world, (a, b) = stable("a", "b")
    world.join("a", a, rebalance_timeout_ms=2 * REBALANCE_MS)
    for _ in range(2 * REBALANCE_MS // 5_000 - 1):
        world.let_pass(5_000)
        assert world.heartbeat(b) == "REBALANCE_IN_PROGRESS"
    assert world.state is PREPARING
    world.let_pass(5_000)
    assert world.state is COMPLETING


def test_absent_static_member_keeps_its_assignment() -> None:
    world = World()
    world.join("a", group_instance_id="one", rebalance_timeout_ms=3_000)
    world.join("b", group_instance_id="two", rebalance_timeout_ms=3_000)
    world.let_pass(0)
    settle(world, ["a-1", "b-2"])
    waits = world.join("a", "a-1", group_instance_id="one", rebalance_timeout_ms=3_000)
    world.let_pass(3_000)
    assert [each.member_id for each in waits[0].members] == ["a-1", "b-2"]
    settle_alone = world.sync("a-1", {"a-1": b"1", "b-2": b"2"})
    assert (settle_alone[0].error, world.state) == (None, STABLE)
    (result,) = world.join("b", group_instance_id="two", rebalance_timeout_ms=3_000)
    assert (result.member_id, result.generation_id, world.sync("b-3")[0].assignment) == ("b-3", 2, b"2")
    world.let_pass(3_000)
    assert world.state is STABLE


def test_rebalance_waits_for_absent_static_members() -> None:
    world = World()
    world.join("a", group_instance_id="one", rebalance_timeout_ms=1_000)
    _, waits = world.enter("b", rebalance_timeout_ms=1_000)
    world.let_pass(0)
    assert len(waits) == 1
    settle(world, ["a-1", "b-2"])
    world.leave("b-2")
    assert world.state is PREPARING
    world.let_pass(5_000)
    assert (world.state, world.generation) == (PREPARING, 1)
    assert world.join("a", "a-1", group_instance_id="one")[0].generation_id == 2


def test_follower_that_never_syncs_is_removed() -> None:
    world, (a, b) = stable("a", "b")
    world.join("a", a)
    world.join("b", b)
    world.sync(a, {a: b"1", b: b"2"})
    assert world.state is STABLE
    for _ in range(REBALANCE_MS // 5_000):
        world.let_pass(5_000)
        world.heartbeat(a)
        world.heartbeat(b)
    assert world.state is PREPARING
    assert world.heartbeat(b) == "UNKNOWN_MEMBER_ID"


def test_leader_that_never_syncs_is_removed() -> None:
    world, (a, b) = stable("a", "b")
    world.join("a", a)
    world.join("b", b)
    waits = world.sync(b)
    for _ in range(REBALANCE_MS // 5_000):
        world.let_pass(5_000)
        world.heartbeat(a)
    assert ([answer.error.name for answer in waits if answer.error], world.state) == (["REBALANCE_IN_PROGRESS"], PREPARING)
    assert world.join("b", b)[0].leader == b


def test_synced_members_are_kept() -> None:
    world, ids = stable("a", "b")
    for _ in range(2 * REBALANCE_MS // 5_000):
        world.let_pass(5_000)
        assert [world.heartbeat(member_id) for member_id in ids] == ["OK", "OK"]


# Ids that were given out


def test_rebalance_waits_for_pending_member_ids() -> None:
    world, (a,) = stable("a")
    (given,) = world.join("b")
    waits = world.join("a", a)
    assert (waits, world.state) == ([], PREPARING)
    world.let_pass(SESSION_MS)
    assert waits[0].generation_id == 2
    assert world.join("b", given.member_id)[0].error is UnknownMemberId


def test_new_member_waiting_too_long_is_removed() -> None:
    world, (a,) = stable("a")
    _, waits = world.enter("b", rebalance_timeout_ms=2 * NEW_MEMBER_JOIN_TIMEOUT_MS)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 5_000):
        world.let_pass(5_000)
        world.heartbeat(a)
    assert [answer.error for answer in waits] == [UnknownMemberId]
    assert world.join("a", a)[0].generation_id == 2


# The first rebalance


def test_initial_rebalance_delay_is_extended_by_new_members() -> None:
    world = World(limits=ClassicGroupLimits(initial_rebalance_delay_ms=3_000))
    _, waits_a = world.enter("a")
    world.let_pass(2_000)
    _, waits_b = world.enter("b")
    world.let_pass(1_000)
    assert (waits_a, waits_b) == ([], [])  # b came: another three seconds
    world.let_pass(2_999)
    assert waits_a == []
    world.let_pass(1)
    assert (waits_a[0].generation_id, waits_b[0].generation_id) == (1, 1)


def test_initial_rebalance_delay_is_limited_by_the_rebalance_timeout() -> None:
    world = World(limits=ClassicGroupLimits(initial_rebalance_delay_ms=3_000))
    _, waits = world.enter("a", rebalance_timeout_ms=10_000)
    for index in range(9):
        world.let_pass(1_000)
        world.enter(f"b{index}", rebalance_timeout_ms=10_000)
    assert waits == []
    world.let_pass(1_000)
    assert len(waits) == 1


def test_all_members_leave_before_the_first_generation() -> None:
    world = World(limits=ClassicGroupLimits(initial_rebalance_delay_ms=3_000))
    a, waits = world.enter("a")
    world.leave(a)
    assert ([answer.error for answer in waits], world.state) == ([UnknownMemberId], PREPARING)
    world.let_pass(3_000)
    assert (world.state, world.generation) == (EMPTY, 1)


def test_a_hundred_members_join_and_leave() -> None:
    world = World()
    ids = [world.enter(f"c{index}")[0] for index in range(100)]
    world.let_pass(0)
    settle(world, ids)
    for _ in range(5):
        assert set(world.leave(*ids[:10])) == {"OK"}
        ids = ids[10:]
        new = [world.enter(f"d{index}")[0] for index in range(10)]
        waits = [world.join("", member_id) for member_id in ids]
        ids += new
        assert {answer.generation_id for (answer,) in waits} == {world.generation}
        settle(world, ids)
    assert (world.generation, len(world.group.members)) == (6, 100)
    world.let_pass(SESSION_MS)
    assert (world.state, world.generation) == (EMPTY, 7)


def test_joining_again_costs_no_more_in_a_large_group() -> None:
    """A rebalance would otherwise cost as much as the square of its members."""
    calls = {}
    for count in (10, 100):
        world = World()
        ids = [world.enter(f"c{index}")[0] for index in range(count)]
        world.let_pass(0)
        settle(world, ids)
        world.join("", ids[0], protocols=tuple(Protocol(each.name, b"") for each in PROTOCOLS))  # starts a rebalance
        calls[count] = calls_in(lambda world=world, ids=ids: world.join("", ids[1]))  # type: ignore[misc]  # binds those of this round
    assert calls[100] < calls[10] + 10


def test_common_protocols_follow_the_members() -> None:
    a_first, b_first = (Protocol("a", b""), Protocol("b", b"")), (Protocol("b", b""), Protocol("a", b""))
    only_a, only_b, other = (Protocol("a", b""),), (Protocol("b", b""),), (Protocol("c", b""),)
    world = World()
    first, _ = world.enter("first", protocols=a_first)
    second, _ = world.enter("second", protocols=b_first)
    world.let_pass(0)
    settle(world, [first, second])
    assert world.join("first", first, protocols=only_a) == []
    assert [answer.error for answer in world.join("third", protocols=only_b)] == [InconsistentGroupProtocol]
    assert [answer.error for answer in world.join("second", second, protocols=other)] == [InconsistentGroupProtocol]
    assert world.join("second", second, protocols=b_first)[0].protocol_name == "a"
    world.leave(first)
    assert world.join("second", second, protocols=only_b)[0].protocol_name == "b"
    assert [answer.error for answer in world.join("third", protocols=only_a)] == [InconsistentGroupProtocol]


# A group that the log knows


@pytest.mark.parametrize("is_alive", [True, False])
def test_loaded_group_continues(is_alive: bool) -> None:
    before, (a, b) = stable("a", "b")
    world = World(stored=before.stored[-1], clock=ManualClock())
    world.group.resume()
    assert (world.state, world.generation, world.group.members.leader_id) == (STABLE, 1, a)
    assert world.group._rebalance.state_timestamp_ms == before.stored[-1].current_state_timestamp
    world.let_pass(SESSION_MS - 1)
    if is_alive:
        assert [world.heartbeat(a), world.heartbeat(b)] == ["OK", "OK"]
        assert world.sync(b)[0].assignment == b"b-2"
        assert world.commit(1, a) == "OK"
    world.let_pass(1)
    assert world.state is (STABLE if is_alive else EMPTY)
    assert world.stored == ([] if is_alive else [world.stored[0]])


def test_loaded_empty_group_keeps_its_generation() -> None:
    before, (a,) = stable("a")
    before.leave(a)
    world = World(stored=before.stored[-1])
    world.group.resume()
    assert (world.state, world.generation, world.group.members.protocol_type) == (EMPTY, 2, "consumer")
    _, waits = world.enter("b", protocol_type="connect", protocols=(Protocol("default", b""),))
    world.let_pass(0)
    assert (waits[0].generation_id, waits[0].protocol_type) == (3, "connect")
    assert world.stored == []


def test_loaded_group_above_the_size_limit_rebalances() -> None:
    before, _ = stable("a", "b", "c")
    world = World(stored=before.stored[-1], limits=ClassicGroupLimits(max_size=2))
    world.group.resume()
    assert world.state is PREPARING


def test_unloaded_group_answers_not_coordinator() -> None:
    world, (a, b) = stable("a", "b")
    waits = world.join("a", a)
    world.group.unload()
    assert [answer.error for answer in waits] == [NotCoordinator]
    world.let_pass(10 * REBALANCE_MS)
    assert world.generation == 1

    world, (a, b) = stable("a", "b")
    world.join("a", a)
    world.join("b", b)
    syncs = world.sync(b)
    world.group.unload()
    assert [answer.error for answer in syncs] == [NotCoordinator]
