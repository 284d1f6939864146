"""Reassignments with minibroker.like.kafka: they run for a while, can be seen and cancelled, and brokers may stop meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.cluster.nodes import PartitionNodes
from minibroker.config.broker_properties import LIKE_KAFKA
from minibroker.schemas import k20_delete_topics as k20
from minibroker.schemas import k45_alter_partition_reassignments as k45
from minibroker.schemas import k46_list_partition_reassignments as k46
from minibroker.testing.simulation.leadership import RUNNING_MS
from minibroker.wire.schema import NIL_UUID
from tests.support.nodes_in_memory import NodesInMemory

NO_REASSIGNMENT = 85


def four_nodes(*, like_kafka: bool = True) -> NodesInMemory:
    """With a topic `orders` of one partition on nodes 1 and 2."""
    nodes = NodesInMemory(4, config={LIKE_KAFKA: str(like_kafka).lower()})
    cluster = nodes.broker.cluster
    cluster.create_topics([cluster.new_topic("orders", assignments={0: (1, 2)})])
    return nodes


def alter(nodes: NodesInMemory, *replicas: int, cancel: bool = False) -> int:
    requested_partition = k45.Partition(partition_index=0, replicas=None if cancel else list(replicas))
    request = k45.Request(topics=[k45.Topic(name="orders", partitions=[requested_partition])])
    (topic,) = nodes.ask(request, at=1).responses
    (partition,) = topic.partitions
    return int(partition.error_code)


def running(nodes: NodesInMemory) -> list[tuple[list[int], list[int], list[int]]]:
    """Replicas, those to be added and those to be removed."""
    answer: Any = nodes.ask(k46.Request(topics=None), at=1)
    return [(each.replicas, each.adding_replicas, each.removing_replicas) for topic in answer.topics for each in topic.partitions]


def seen(nodes: NodesInMemory) -> PartitionNodes:
    return nodes.leadership.of(nodes.partition("orders"))


def test_a_reassignment_runs_and_is_done() -> None:
    nodes = four_nodes()
    assert alter(nodes, 3, 2) == 0
    assert running(nodes) == [([3, 2, 1], [3], [1])]
    assert seen(nodes) == PartitionNodes(1, [3, 2, 1], [1, 2], [])
    nodes.broker.clock.advance(RUNNING_MS - 1)
    assert running(nodes) == [([3, 2, 1], [3], [1])]
    nodes.broker.clock.advance(1)
    assert running(nodes) == []
    assert seen(nodes) == PartitionNodes(3, [3, 2], [3, 2], [])


def test_it_can_be_cancelled() -> None:
    nodes = four_nodes()
    assert alter(nodes, cancel=True) == NO_REASSIGNMENT
    alter(nodes, 3, 4)
    assert alter(nodes, cancel=True) == 0
    assert alter(nodes, cancel=True) == NO_REASSIGNMENT
    for _ in range(2):
        assert (running(nodes), seen(nodes)) == ([], PartitionNodes(1, [1, 2], [1, 2], []))
        nodes.broker.clock.advance(RUNNING_MS)


def test_another_one_replaces_it() -> None:
    nodes = four_nodes()
    alter(nodes, 3, 4)
    nodes.broker.clock.advance(RUNNING_MS // 2)
    assert alter(nodes, 1, 4) == 0
    assert running(nodes) == [([1, 4, 2], [4], [2])]
    nodes.broker.clock.advance(RUNNING_MS // 2)
    assert running(nodes) != []
    nodes.broker.clock.advance(RUNNING_MS // 2)
    assert seen(nodes) == PartitionNodes(1, [1, 4], [1, 4], [])


def test_one_without_new_replicas_is_done_at_once() -> None:
    nodes = four_nodes()
    assert alter(nodes, 2, 1) == 0
    assert (running(nodes), seen(nodes)) == ([], PartitionNodes(1, [2, 1], [2, 1], []))
    alter(nodes, 3, 1)
    assert alter(nodes, 2, 1) == 0
    assert (running(nodes), seen(nodes)) == ([], PartitionNodes(1, [2, 1], [2, 1], []))


def test_replica_being_added_does_not_lead() -> None:
    nodes = four_nodes()
    alter(nodes, 3, 4)
    nodes.leadership.stop(1)
    assert seen(nodes) == PartitionNodes(2, [3, 4, 1, 2], [2], [1])
    nodes.leadership.stop(2)
    assert seen(nodes).leader_id == -1
    nodes.leadership.start(1)
    nodes.leadership.start(2)
    nodes.broker.clock.advance(RUNNING_MS)
    assert seen(nodes) == PartitionNodes(3, [3, 4], [3, 4], [])


def test_deleting_a_topic_cancels_its_reassignments() -> None:
    nodes = four_nodes()
    alter(nodes, 3, 4)
    nodes.ask(k20.Request(topics=[k20.Topic(name="orders", topic_id=NIL_UUID)], timeout_ms=1000), at=1)
    nodes.broker.clock.advance(RUNNING_MS)
    assert running(nodes) == []


@pytest.mark.parametrize("replicas", [(3, 2), (3, 4)])
def test_without_the_switch_it_is_done_when_it_is_answered(replicas: tuple[int, ...]) -> None:
    nodes = four_nodes(like_kafka=False)
    assert alter(nodes, *replicas) == 0
    assert (running(nodes), seen(nodes).replicas) == ([], list(replicas))
    assert alter(nodes, cancel=True) == NO_REASSIGNMENT
