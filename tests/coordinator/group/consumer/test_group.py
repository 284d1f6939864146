"""A consumer group step by step, as Apache Kafka 4.3.1 was seen to answer the same steps."""

from __future__ import annotations

import pytest

from minibroker.coordinator.group.consumer.requests import ConsumerGroupLimits
from minibroker.coordinator.group.kind import Membership
from minibroker.errors import NotCoordinator, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from tests.coordinator.group.consumer.world import REBALANCE_MS, World
from tests.coordinator.group.modern_world import SESSION_MS, KnownTopics

ALL = {"t": [0, 1, 2, 3]}
FULL = {"rebalance_timeout_ms": REBALANCE_MS, "topic_names": ("t",), "owned": {}}


def two_members(**options: object) -> World:
    """a owns 0 and 1, b 2 and 3, both at epoch 3."""
    world = World(**options)  # type: ignore[arg-type]  # passed on
    assert world.join("a") == (2, ALL)
    assert world.join("b") == (3, {})
    assert world.beat("a", 2, ALL) == (2, {"t": [0, 1]})
    assert world.beat("a", 2, {"t": [0, 1]}) == (3, None)
    assert world.beat("b", 3, {}) == (3, {"t": [2, 3]})
    assert world.state == "Stable"
    return world


def test_second_member_gets_revoked_partitions() -> None:
    world = World()
    assert world.state == "Empty"
    assert world.join("a") == (2, ALL)
    assert world.state == "Stable"
    assert world.join("b") == (3, {})
    assert world.state == "Reconciling"
    assert world.beat("a", 2, ALL) == (2, {"t": [0, 1]})
    for _ in range(2):
        assert world.beat("b", 3, {}) == (3, None)
        assert world.beat("a", 2, ALL) == (2, None)
        assert world.beat("a", 2) == (2, None)
    assert world.beat("a", 2, {"t": [0, 1]}) == (3, None)
    assert world.beat("b", 3, {}) == (3, {"t": [2, 3]})
    assert world.state == "Stable"


def test_target_assignment_is_limited_by_the_interval() -> None:
    world = World(limits=ConsumerGroupLimits(assignment_interval_ms=1_000))
    assert world.join("a") == (2, ALL)
    assert world.join("b") == (2, {})
    assert world.state == "Assigning"
    assert world.beat("a", 2, ALL) == (2, None)
    world.let_pass(1_000)
    assert world.beat("a", 2, ALL) == (2, {"t": [0, 1]})
    assert world.beat("b", 2, {}) == (3, None)
    assert world.state == "Reconciling"


def test_unchanged_heartbeats_store_nothing() -> None:
    world = two_members()
    count = len(world.stored)
    assert world.beat("a", 3) == (3, None)
    assert world.beat("b", 3, {"t": [2, 3]}) == (3, None)
    assert len(world.stored) == count


def test_unchanged_heartbeats_look_up_no_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group may be subscribed to thousands of topics."""
    world = two_members()
    monkeypatch.setattr(world.topics, "find", None)
    assert world.beat("a", 3) == (3, None)


def test_full_request_gets_a_full_response() -> None:
    world = two_members()
    owned = {"t": [0, 1]}
    assert world.beat("a", 3, owned, rebalance_timeout_ms=REBALANCE_MS, topic_names=("t",)) == (3, {"t": [0, 1]})


def test_rejoining_member_keeps_its_assignment() -> None:
    world = two_members()
    assert world.join("a") == (3, {"t": [0, 1]})
    assert world.group.image.epoch == 3


def test_leaving_member_releases_its_partitions() -> None:
    world = two_members()
    assert world.leave("b") == -1
    assert world.state == "Assigning"
    assert world.beat("a", 3) == (4, ALL)
    assert world.leave("a") == -1
    assert (world.state, world.group.image.epoch, world.group.image.assignment_epoch) == ("Empty", 5, 4)
    assert world.join("a") == (6, ALL)


def test_epochs() -> None:
    world = two_members()
    assert world.beat("a", 2, {"t": [0, 1]}) == (3, None)  # its answer was lost
    small = "The consumer group member has a smaller member epoch ({}) than the one known by the group coordinator (3). "
    great = "The consumer group member has a greater member epoch (4) than the one known by the group coordinator (3). "
    rest = "The member must abandon all its partitions and rejoin."
    assert world.refused("a", 2, owned=world.assignment(ALL)) == (110, small.format(2) + rest)
    assert world.refused("a", 2) == (110, small.format(2) + rest)
    assert world.refused("a", 1, owned={}) == (110, small.format(1) + rest)
    assert world.refused("a", 4) == (110, great + rest)
    assert world.refused("zz", 3) == (25, "Member zz is not a member of group readers.")
    assert world.refused("zz", -1) == (25, "Member zz is not a member of group readers.")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"member_id": ""}, "MemberId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
    ],
)
def test_invalid_requests_are_refused(said: dict[str, object], message: str) -> None:
    world = World()
    requested: dict[str, object] = {"member_id": "a", "epoch": 0, **FULL, **said}
    assert world.refused(**requested) == (42, message)  # type: ignore[arg-type]  # of all kinds
    assert world.stored == []


def test_requests_refused_with_specific_codes() -> None:
    world = World(limits=ConsumerGroupLimits(max_size=1))
    assert world.refused("a", 0, **FULL, server_assignor="nope")[0] == 112
    assert world.refused("a", 0, **FULL, topic_regex="a[")[0] == 128
    assert world.refused("a", 0, **FULL, topic_regex="a[")[1].startswith("SubscribedTopicRegex `a[` is not a valid regular expression: ")
    world.join("a")
    assert world.refused("b", 0, **FULL) == (81, "The consumer group has reached its maximum capacity of 1 members.")
    assert world.join("a") == (2, ALL)


def test_broker_generates_a_missing_member_id() -> None:
    answer = World().ask("", 0, **FULL, draws_own_id=False)
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("drawn", 2, 5_000)


def test_assignor_selection() -> None:
    world = World(topics=KnownTopics(t=3, u=3))
    world.join("a", "t", "u", server_assignor="range")
    world.join("b", "t", "u")
    assert world.beat("a", 2) == (2, {"t": [0, 1], "u": [0, 1]})


# Time


def test_member_not_revoking_in_time_is_removed() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=2_000)
    world.join("b")
    assert world.beat("a", 2, ALL) == (2, {"t": [0, 1]})
    world.let_pass(1_999)
    assert world.beat("a", 2, ALL) == (2, None)
    world.let_pass(1)
    assert world.refused("a", 2)[0] == 25
    assert world.beat("b", 3, {}) == (4, ALL)


def test_member_revoking_in_time_is_kept() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=2_000)
    world.join("b")
    world.beat("a", 2, ALL)
    world.beat("a", 2, {"t": [0, 1]})
    world.let_pass(3_000)
    assert world.beat("a", 3) == (3, None)


def test_session_timeout() -> None:
    world = two_members()
    world.let_pass(SESSION_MS - 1)
    world.beat("a", 3)
    world.let_pass(1)
    assert world.refused("b", 3)[0] == 25
    assert world.beat("a", 3) == (4, ALL)


def test_failed_member_expiration_is_retried() -> None:
    world = World()
    world.join("a")
    world.fails = True
    world.let_pass(SESSION_MS)
    assert world.state == "Stable"
    world.fails = False
    world.let_pass(SESSION_MS)
    assert world.state == "Empty"


def test_failed_write_changes_nothing() -> None:
    world = two_members()
    before = world.replayed()
    world.fails = True
    for ask in (lambda: world.join("c"), lambda: world.leave("a"), lambda: world.beat("a", 3, topic_names=("u",))):
        with pytest.raises(NotCoordinator):
            ask()
    world.fails = False
    assert world.group.image.members == before.members
    assert world.group.image.epoch == 3
    assert world.beat("a", 3) == (3, None)


def test_unloaded_groups_have_no_timers() -> None:
    world = two_members()
    world.group.unload()
    count = len(world.stored)
    world.let_pass(10 * SESSION_MS)
    assert len(world.stored) == count


def test_timeouts_restart_after_a_broker_restart() -> None:
    world = World()
    world.join("a", rebalance_timeout_ms=2_000)
    world.join("b")
    world.beat("a", 2, ALL)
    world.let_pass(1_500)
    world.restart()
    assert world.beat("b", 3) == (3, None)
    world.let_pass(1_999)
    assert world.state == "Reconciling"
    world.let_pass(1)
    assert world.refused("a", 2)[0] == 25
    world.let_pass(SESSION_MS)
    assert world.state == "Empty"


# Subscriptions


def test_topics_are_created_grown_and_deleted() -> None:
    world = World()
    world.join("a", "t", "absent")
    world.topics.grow("t", 6)
    assert world.beat("a", 2, ALL) == (3, {"t": [0, 1, 2, 3, 4, 5]})
    world.topics.create("absent", 1)
    assert world.beat("a", 3) == (4, {"t": [0, 1, 2, 3, 4, 5], "absent": [0]})
    world.topics.delete("t")
    assert world.beat("a", 4) == (4, {"absent": [0]})
    assert world.beat("a", 4, {"absent": [0]}) == (5, None)
    world.topics.create("other", 1)
    assert world.beat("a", 5) == (5, None)


def test_changed_subscription() -> None:
    world = World(topics=KnownTopics(t=2, u=2))
    world.join("a", "t")
    assert world.beat("a", 2, {"t": [0, 1]}, topic_names=("u",)) == (2, {})
    assert world.beat("a", 2, {}) == (3, {"u": [0, 1]})
    assert world.group.is_subscribed("u")
    assert not world.group.is_subscribed("t")


def test_unsubscribed_topic_is_revoked_before_the_next_target() -> None:
    world = World(topics=KnownTopics(t=2, u=2), limits=ConsumerGroupLimits(assignment_interval_ms=1_000))
    world.join("a", "t", "u")
    assert world.beat("a", 2, {"t": [0, 1], "u": [0, 1]}, topic_names=("u",)) == (2, {"u": [0, 1]})
    assert world.beat("a", 2, {"u": [0, 1]}) == (2, None)
    world.let_pass(1_000)
    assert world.beat("a", 2) == (3, None)


def test_regex_subscription() -> None:
    world = World(topics=KnownTopics(a1=1, a2=1, b=1))
    assert world.join("m", topic_names=(), topic_regex="a.*") == (2, {"a1": [0], "a2": [0]})
    assert world.group.is_subscribed("a2")
    world.topics.create("a3", 1)
    assert world.beat("m", 2) == (2, None)  # it looks every second
    world.let_pass(1_000)
    assert world.beat("m", 2) == (3, {"a1": [0], "a2": [0], "a3": [0]})
    assert world.beat("m", 3, {}, topic_names=("b",), topic_regex="") == (4, {"b": [0]})
    assert world.replayed().regexes == {}


def test_expensive_regex_is_resolved_by_a_later_heartbeat() -> None:
    names = [f"{'a' * 245}{number}" for number in range(10)]
    world = World(topics=KnownTopics(**dict.fromkeys(names, 1)))
    large = r"(\b?[a-z]?){400}[0-9]+"
    assert world.join("m", topic_names=(), topic_regex=large) == (1, {})
    assert world.replayed().regexes == {}
    world.topics.clock.advance(0)
    assert world.beat("m", 1) == (2, {name: [0] for name in names})
    assert list(world.replayed().regexes) == [large]


def test_names_and_regex_together() -> None:
    world = World(topics=KnownTopics(a=1, b=1))
    assert world.join("m", "b", topic_regex="a") == (2, {"a": [0], "b": [0]})


def test_regexes_are_removed_with_their_members() -> None:
    world = World(topics=KnownTopics(a=1))
    world.join("m", topic_names=(), topic_regex="a")
    world.join("n", topic_names=(), topic_regex="a")
    world.leave("m")
    assert list(world.replayed().regexes) == ["a"]
    world.leave("n")
    assert world.replayed().regexes == {}


# Static members


def test_static_member_rejoins_with_its_assignment() -> None:
    world = World()
    world.join("a", instance_id="one")
    assert world.refused("b", 0, **FULL, instance_id="one") == (
        111,
        "Static member b with instance id one cannot join the group because the instance id is owned by a member.",
    )
    assert world.refused("b", 2, instance_id="one") == (82, "Static member b with instance id one was fenced by member a.")
    assert world.refused("b", -1, instance_id="one")[0] == 82
    assert world.refused("b", 2, instance_id="two") == (25, "Instance id two is unknown.")
    assert world.ask("a", -2, instance_id="one").member_epoch == -2
    assert world.state == "Reconciling"
    assert world.join("b", instance_id="one") == (2, ALL)
    assert (world.state, world.group.image.epoch) == ("Stable", 2)
    assert world.refused("a", 2, instance_id="one")[0] == 82
    assert world.refused("a", 2)[0] == 25


def test_absent_static_member_is_removed_at_session_timeout() -> None:
    world = World()
    world.join("a", instance_id="one")
    world.ask("a", -2, instance_id="one")
    assert world.join("b") == (3, {})
    world.let_pass(SESSION_MS - 1)
    assert world.beat("b", 3) == (3, None)
    world.let_pass(1)
    assert world.beat("b", 3) == (4, ALL)
    assert world.group.image.instances == {}


def test_static_member_rejoins_a_full_group() -> None:
    world = World(limits=ConsumerGroupLimits(max_size=1))
    world.join("a", instance_id="one")
    world.ask("a", -2, instance_id="one")
    assert world.join("b", instance_id="one") == (2, ALL)


def test_static_member_may_leave_permanently() -> None:
    world = World()
    world.join("a", instance_id="one")
    assert world.leave("a", instance_id="one") == -1
    assert world.state == "Empty"


# Offsets


def test_offset_commit_is_checked_by_member_and_epoch() -> None:
    world = two_members()
    topic = world.topics.find("t")
    assert topic is not None
    check, topic_id = world.group.check_offset_commit, topic.topic_id

    def may_commit(member_id: str, epoch: int, **said: bool) -> list[int]:
        return [index for index in range(4) if check(Membership(epoch, member_id), **said)(topic_id, index) is None]

    assert may_commit("a", 3) == [0, 1, 2, 3]
    with pytest.raises(UnsupportedVersion):
        may_commit("a", 3, has_member_epoch=False)
    assert may_commit("a", 2) == [0, 1]  # its own since epoch 2
    assert may_commit("b", 2) == []
    assert may_commit("a", 1) == []
    assert may_commit("a", -1) == []
    assert may_commit("", -1, is_transactional=True) == [0, 1, 2, 3]
    with pytest.raises(StaleMemberEpoch):
        check(Membership(4, "a"))
    for member_id in ("", "zz"):
        with pytest.raises(UnknownMemberId):
            check(Membership(-1, member_id))
    world.join("c")
    world.join("d")
    world.beat("a", 3, {"t": [0, 1]})
    assert world.group.image.members["a"].pending_revocation == {topic_id: {1: 2}}
    assert may_commit("a", 2) == [0, 1]
    for name in "abcd":
        world.leave(name)
    assert may_commit("", -1) == [0, 1, 2, 3]


def test_offset_fetch_is_checked_by_member_and_epoch() -> None:
    world = two_members()
    world.group.check_offset_fetch(None, -1)
    world.group.check_offset_fetch("a", 3)
    with pytest.raises(StaleMemberEpoch):
        world.group.check_offset_fetch("a", 2)
    with pytest.raises(UnknownMemberId):
        world.group.check_offset_fetch("zz", 3)
