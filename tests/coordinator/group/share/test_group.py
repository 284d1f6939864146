"""A share group step by step, as Apache Kafka 4.3.1 was seen to answer the same steps."""

from __future__ import annotations

import pytest

from minibroker.coordinator.group.share.group import ShareGroupLimits
from minibroker.errors import CoordinatorLoadInProgress, NonEmptyGroup, NotCoordinator
from tests.coordinator.group.modern_world import SESSION_MS, KnownTopics
from tests.coordinator.group.share.world import World

ALL = {"t": [0, 1, 2, 3]}
GREATER = "greater member epoch (4) than the one known by the group coordinator (3). The member must abandon all its partitions and rejoin."
SMALLER = (
    "smaller member epoch (1) than the one known by the group coordinator (3), and it does not match the previous member epoch (2). "
    "The member must abandon all its partitions and rejoin."
)


def two_members(**options: object) -> World:
    """a has 2 and 3, b 0 and 1, both at epoch 3."""
    world = World(**options)  # type: ignore[arg-type]  # passed on
    assert world.join("a") == (2, ALL)
    assert world.join("b") == (3, {"t": [0, 1]})
    assert world.beat("a", 2) == (3, {"t": [2, 3]})
    return world


def test_members_join_share_and_leave() -> None:
    world = World()
    assert world.state == "Empty"
    assert world.join("a") == (2, ALL)
    assert world.state == "Stable"
    assert world.join("b") == (3, {"t": [0, 1]})
    assert world.beat("b", 3) == (3, None)
    assert world.beat("a", 2) == (3, {"t": [2, 3]})
    assert world.leave("b") == -1
    assert world.gone == ["b"]
    assert world.beat("a", 3) == (4, ALL)
    assert world.leave("a") == -1
    assert world.state == "Empty"
    assert (world.image.epoch, world.image.assignment_epoch) == (5, 4)
    assert world.join("c") == (6, ALL)


def test_more_members_than_partitions() -> None:
    world = World(topics=KnownTopics(t=1))
    assert world.join("a") == (2, {"t": [0]})
    assert world.join("b") == (3, {"t": [0]})
    assert world.join("c") == (4, {"t": [0]})
    assert world.beat("a", 2) == (4, None)


def test_members_of_different_topics() -> None:
    world = World(topics=KnownTopics(t=2, u=2))
    assert world.join("a", "t") == (2, {"t": [0, 1]})
    assert world.join("b", "t", "u") == (3, {"t": [0], "u": [0, 1]})
    assert world.beat("a", 2) == (3, {"t": [1]})


def test_target_assignment_is_limited_by_the_interval() -> None:
    world = World(limits=ShareGroupLimits(assignment_interval_ms=1_000))
    assert world.join("a") == (2, ALL)
    assert world.join("b") == (2, {})
    world.let_pass(1_000)
    assert world.beat("b", 2) == (3, {"t": [0, 1]})


def test_unchanged_heartbeats_store_nothing() -> None:
    world = two_members()
    count = len(world.stored)
    assert world.beat("a", 3) == (3, None)
    assert world.beat("b", 3) == (3, None)
    assert len(world.stored) == count


def test_full_request_gets_a_full_response() -> None:
    world = two_members()
    assert world.beat("a", 3, topic_names=("t",)) == (3, {"t": [2, 3]})
    assert world.join("a") == (3, {"t": [2, 3]})
    assert world.image.epoch == 3


def test_epochs() -> None:
    world = two_members()
    assert world.beat("a", 2) == (3, None)  # its answer was lost
    assert world.refused("a", 4) == (110, f"The share group member has a {GREATER}")
    assert world.refused("a", 1) == (110, f"The share group member has a {SMALLER}")
    assert world.refused("zz", 1) == (25, "Member zz is not a member of group sharers.")
    assert world.refused("zz", -1) == (25, "Member zz is not a member of group sharers.")


def test_invalid_requests_are_refused() -> None:
    world = World(limits=ShareGroupLimits(max_size=1))
    assert world.refused("a", 0) == (42, "SubscribedTopicNames must be set in first request.")
    assert world.refused("a", 0, topic_names=()) == (42, "SubscribedTopicNames must be set in first request.")
    assert world.refused("a", -2) == (42, "MemberEpoch is invalid.")
    assert world.refused("a", 0, topic_names=("t",), rack_id="") == (42, "RackId can't be empty.")
    world.join("a")
    assert world.refused("b", 0, topic_names=("t",)) == (81, "The share group has reached its maximum capacity of 1 members.")
    assert world.refused("b", 7) == (81, "The share group has reached its maximum capacity of 1 members.")
    assert world.join("a") == (2, ALL)
    unnamed = World(group_id="")
    assert unnamed.refused("a", 0, topic_names=("t",)) == (42, "GroupId can't be empty.")


def test_changed_subscription() -> None:
    world = World(topics=KnownTopics(t=2, u=1))
    assert world.join("a", "t") == (2, {"t": [0, 1]})
    assert world.beat("a", 2, topic_names=("u", "u", "absent")) == (3, {"u": [0]})
    assert world.image.members["a"].topic_names == ("absent", "u")
    assert world.beat("a", 3, topic_names=()) == (4, {})
    assert world.beat("a", 4) == (4, None)


def test_unsubscribed_topic_is_revoked_before_the_interval_ends() -> None:
    world = World(limits=ShareGroupLimits(assignment_interval_ms=1_000), topics=KnownTopics(t=2, u=1))
    assert world.join("a", "t", "u") == (2, {"t": [0, 1], "u": [0]})
    assert world.beat("a", 2, topic_names=("u",)) == (2, {"u": [0]})


def test_silent_member_is_removed() -> None:
    world = two_members()
    world.let_pass(SESSION_MS - 1)
    world.beat("a", 3)
    world.let_pass(1)
    assert world.gone == ["b"]
    assert world.beat("a", 3) == (4, ALL)
    world.restart()
    world.let_pass(SESSION_MS)
    assert world.gone == ["b", "a"]
    assert world.state == "Empty"


def test_member_is_kept_until_its_removal_can_be_stored() -> None:
    world = two_members()
    world.fails = True
    world.let_pass(SESSION_MS)
    assert world.gone == []
    world.fails = False
    world.let_pass(SESSION_MS)
    assert sorted(world.gone) == ["a", "b"]


def test_unloaded_group_has_no_timers() -> None:
    world = two_members()
    world.group.unload()
    world.let_pass(2 * SESSION_MS)
    assert world.gone == []


def test_topics_are_created_grown_and_deleted() -> None:
    world = World(topics=KnownTopics())
    assert world.join("a", "t", "u") == (2, {})
    world.topics.create("t", 1)
    assert world.beat("a", 2) == (3, {"t": [0]})
    world.topics.grow("t", 2)
    assert world.beat("a", 3) == (4, {"t": [0, 1]})
    world.topics.create("u", 1)
    world.topics.delete("t")
    assert world.beat("a", 4) == (5, {"u": [0]})
    assert world.image.state_partitions.topic_ids == {world.id_of("u")}
    world.topics.delete("u")
    world.topics.create("u", 1)
    assert world.beat("a", 5) == (6, {"u": [0]})
    world.topics.create("other", 1)
    assert world.beat("a", 6) == (6, None)


def test_only_initialized_partitions_are_assigned() -> None:
    world = World()
    world.states.refused.add((world.id_of("t"), 1))
    assert world.join("a") == (2, {"t": [0, 2, 3]})
    assert world.beat("a", 2) == (2, None)
    world.states.refused.clear()
    assert world.beat("a", 2) == (3, ALL)
    assert world.offsets("t") == {0: (2, -1), 1: (2, -1), 2: (2, -1), 3: (2, -1)}


def test_loading_share_coordinator_delays_assignment() -> None:
    world = World()
    world.states.is_loading = True
    assert world.join("a") == (2, {})
    assert world.beat("a", 2) == (2, None)
    world.states.is_loading = False
    assert world.beat("a", 2) == (3, ALL)


def test_interrupted_initialization_is_retried_after_a_restart() -> None:
    world = World()
    world.join("a")
    interrupted = [index for index, record in enumerate(world.stored) if getattr(record.value, "initializing_topics", None)]
    del world.stored[interrupted[0] + 1 :]
    world.restart()
    assert world.image.state_partitions.initializing.keys() == {world.id_of("t")}
    assert world.beat("a", 0, topic_names=("t",)) == (2, ALL)
    assert world.image.state_partitions.initializing == {}


def test_lost_share_states_are_initialized_again() -> None:
    world = World()
    world.join("a")
    del world.states.known[world.id_of("t"), 1], world.states.known[world.id_of("t"), 3]
    world.restart()
    world.states.is_loading = True
    assert world.beat("a", 2) == (2, None)
    world.states.is_loading = False
    world.fails = True
    with pytest.raises(NotCoordinator):
        world.beat("a", 2)
    world.fails = False
    assert world.beat("a", 2) == (2, None)
    assert world.offsets("t") == dict.fromkeys(range(4), (2, -1))
    assert world.image.state_partitions.initialized[world.id_of("t")].partitions == {0, 1, 2, 3}
    count = len(world.stored)
    assert world.beat("a", 2) == (2, None)
    assert len(world.stored) == count


def test_failed_write_changes_nothing() -> None:
    world = World()
    world.fails = True
    with pytest.raises(NotCoordinator):
        world.join("a")
    assert world.state == "Empty"
    world.fails = False
    assert world.join("a") == (2, ALL)
    world.fails = True
    with pytest.raises(NotCoordinator):
        world.leave("a")
    assert world.gone == []


def test_group_with_members_cannot_be_deleted() -> None:
    world = World()
    world.join("a")
    with pytest.raises(NonEmptyGroup):
        world.group.check_delete()
    world.leave("a")
    world.group.check_delete()


def test_deleting_the_group_deletes_its_share_states() -> None:
    world = World()
    world.join("a")
    world.leave("a")
    world.states.is_loading = True
    with pytest.raises(CoordinatorLoadInProgress):
        world.group.offsets.delete_all()
    assert len(world.offsets("t")) == 4
    world.states.is_loading = False
    world.group.offsets.delete_all()
    assert world.offsets("t") == {}
    assert world.image.state_partitions.topic_ids == set()
