"""Offsets of a share group: set anew and forgotten while it is empty, and what is stored of that."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from minibroker.coordinator.group.share.members import NamedPartitions, StatePartitions, named
from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.errors import CoordinatorLoadInProgress, KafkaError
from tests.coordinator.group.modern_world import KnownTopics
from tests.coordinator.group.share.world import World

A, B = UUID(int=1), UUID(int=2)
UNKNOWN = (3, "This server does not host this topic-partition.")
NOTHING_TO_DELETE = (3, "There is no offset information to delete.")


def codes_of(errors: Sequence[KafkaError | None]) -> list[tuple[int, str] | None]:
    return [None if error is None else (error.code, str(error)) for error in errors]


def empty_group() -> World:
    world = World(topics=KnownTopics(t=2, u=1))
    world.join("a", "t")
    world.leave("a")
    return world


def test_start_offsets_of_an_empty_group() -> None:
    world = empty_group()
    starts = [StartOffset("t", 0, 7), StartOffset("t", 2, 7), StartOffset("absent", 0, 7), StartOffset("u", 0, 5), StartOffset("t", -1, 7)]
    assert codes_of(world.group.offsets.alter(starts)) == [None, UNKNOWN, UNKNOWN, None, UNKNOWN]
    assert world.offsets("t") == {0: (3, 7), 1: (2, -1)}
    assert world.offsets("u") == {0: (3, 5)}
    known = world.image.state_partitions
    assert known.initializing == {}
    assert known.initialized == {
        world.id_of("t"): NamedPartitions("t", frozenset({0, 1})),
        world.id_of("u"): NamedPartitions("u", frozenset({0})),
    }
    assert world.join("b", "t", "u") == (4, {"t": [0, 1], "u": [0]})
    assert world.offsets("u") == {0: (3, 5)}


def test_altering_offsets_creates_the_group() -> None:
    world = World(topics=KnownTopics(t=1))
    assert codes_of(world.group.offsets.alter([StartOffset("absent", 0, 7)])) == [UNKNOWN]
    assert world.stored == []
    assert codes_of(world.group.offsets.alter([StartOffset("t", 0, 7)])) == [None]
    assert world.offsets("t") == {0: (1, 7)}
    assert world.state == "Empty"


def test_share_coordinator_errors_are_returned() -> None:
    world = empty_group()
    world.states.refused.add((world.id_of("t"), 1))
    assert codes_of(world.group.offsets.alter([StartOffset("t", 0, 7), StartOffset("t", 1, 7)]))[0] is None
    assert world.offsets("t") == {0: (3, 7), 1: (2, -1)}
    assert world.image.state_partitions.initializing == {}
    errors = world.group.offsets.delete(["t"])
    assert [error.code if error else 0 for error in errors] == [-1]
    assert world.image.state_partitions.deleting == {world.id_of("t"): "t"}
    world.states.refused.clear()
    assert codes_of(world.group.offsets.delete(["t"])) == [None]
    assert world.offsets("t") == {}


def test_forgotten_topics() -> None:
    world = empty_group()
    assert codes_of(world.group.offsets.delete(["t", "absent", "u", "t"])) == [None, UNKNOWN, NOTHING_TO_DELETE, None]
    assert world.offsets("t") == {}
    assert world.image.state_partitions == StatePartitions({}, {}, {})
    assert codes_of(world.group.offsets.delete(["t"])) == [NOTHING_TO_DELETE]
    assert world.join("a", "t") == (4, {"t": [0, 1]})


def test_loading_share_coordinator_is_retried() -> None:
    world = empty_group()
    world.states.is_loading = True
    assert [type(error) for error in world.group.offsets.alter([StartOffset("t", 0, 7)])] == [CoordinatorLoadInProgress]
    with pytest.raises(CoordinatorLoadInProgress):
        world.group.offsets.delete(["t"])
    world.restart()
    assert world.image.state_partitions.deleting == {world.id_of("t"): "t"}
    world.states.is_loading = False
    assert codes_of(world.group.offsets.delete(["t"])) == [None]
    assert world.offsets("t") == {}


def test_deleting_topic_is_subscribed_again() -> None:
    world = empty_group()
    world.states.is_loading = True
    with pytest.raises(CoordinatorLoadInProgress):
        world.group.offsets.delete(["t"])
    world.states.is_loading = False
    assert world.join("a", "t") == (4, {"t": [0, 1]})
    assert world.image.state_partitions.deleting == {}


def test_deleted_topics_are_forgotten() -> None:
    world = empty_group()
    world.topics.delete("t")
    world.group.offsets.forget_deleted_topics()
    assert world.image.state_partitions.topic_ids == set()
    count = len(world.stored)
    world.group.offsets.forget_deleted_topics()
    assert len(world.stored) == count


# The values


def test_lifecycle_of_a_share_partition() -> None:
    expected = named([(A, "a", [0, 1]), (B, "b", [])])
    assert expected == {A: NamedPartitions("a", frozenset({0, 1}))}
    begun = StatePartitions().initialize(expected)
    assert begun.initializing == expected
    assert begun.assignable == {}
    assert begun.missing(expected) == expected
    half = begun.end_initialization(named([(A, "a", [0])]), expected)
    assert half.initializing == {}
    assert half.assignable == {A: {0}}
    assert half.missing(expected) == named([(A, "a", [1])])
    whole = half.initialize(expected).end_initialization(expected)
    assert whole.missing(expected) == {}
    deleting = whole.delete([A, B])
    assert deleting == StatePartitions({}, {}, {A: "a"})
    assert deleting.end_deletion([A]) == StatePartitions({}, {}, {})
    assert deleting.initialize(expected).deleting == {}
    assert whole.forget([A]).topic_ids == set()
