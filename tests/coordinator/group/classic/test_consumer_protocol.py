"""What classic members say of partitions, in the words of the embedded consumer protocol."""

from __future__ import annotations

from uuid import UUID

from minibroker.coordinator.group.classic.consumer_protocol import partitions_of
from minibroker.coordinator.group.consumer.assignors import UNIFORM, assign
from minibroker.coordinator.group.modern import MemberSpec
from minibroker.schemas.internal.consumer_protocol import TopicPartitions
from tests.coordinator.group.modern_world import KnownTopics

T, U = UUID(int=1), UUID(int=2)


def test_nonexistent_partitions_are_ignored() -> None:
    """The fuzzer found that they broke the assignment of the group (IndexError)."""
    entries = [TopicPartitions(topic="t", partitions=[0, 3, 4, -1]), TopicPartitions(topic="absent", partitions=[0])]
    found = partitions_of(entries, KnownTopics(t=4))
    assert found == {T: frozenset({0, 3})}
    members = {"a": MemberSpec(frozenset({T}), found), "b": MemberSpec(frozenset({T, U}))}
    shared = assign(UNIFORM, members, {T: 4, U: 1}, is_homogeneous=False)
    assert {index for each in shared.values() for index in each.get(T, ())} == {0, 1, 2, 3}
