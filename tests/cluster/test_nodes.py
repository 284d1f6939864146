"""Who is told to be a broker, a leader, a replica: one broker alone, and several."""

from __future__ import annotations

import pytest

from minibroker.cluster.node import Node, nodes_of
from minibroker.cluster.nodes import NO_LEADER, Nodes, PartitionNodes
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError, KafkaStorageError
from tests.support.broker_in_memory import BrokerInMemory


def test_one_broker_leads_whatever_has_a_log() -> None:
    broker = BrokerInMemory(topics={"orders": 2}, config={"node.id": "7"})
    nodes = Nodes(broker.cluster.node)
    first, second = broker.cluster.topic("orders").partitions
    second.take_offline(KafkaStorageError())

    assert [node.node_id for node in nodes.alive] == [7]
    assert nodes.controller_id == 7
    assert nodes.find(7) is broker.cluster.node
    assert nodes.find(8) is None
    assert nodes.of(first) == PartitionNodes(7, [7], [7], [])
    assert nodes.of(second) == PartitionNodes(NO_LEADER, [7], [], [7])
    assert nodes.leads(first)
    assert not nodes.leads(second)


def addresses(listeners: str, advertised: str | None = None, count: int = 3) -> list[list[str]]:
    said = {"node.id": "5", "listeners": listeners, "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT"}
    config = BrokerConfig(said | ({} if advertised is None else {"advertised.listeners": advertised}))
    return [[str(listener) for listener in node.listeners] for node in nodes_of(config, Node(config), count)]


def test_ports_of_nodes_follow_each_other() -> None:
    assert addresses("HOST://:9092") == [["HOST://localhost:9092"], ["HOST://localhost:9093"], ["HOST://localhost:9094"]]


def test_ports_of_listeners_beside_each_other_leave_room_for_each_other() -> None:
    assert addresses("HOST://:9092,DOCKER://:9093", count=2) == [
        ["HOST://localhost:9092", "DOCKER://localhost:9093"],
        ["HOST://localhost:9094", "DOCKER://localhost:9095"],
    ]


def test_advertised_ports_move_as_those_that_are_listened_on() -> None:
    assert addresses("HOST://:9092,DOCKER://:19092", "HOST://localhost:29092,DOCKER://broker:19092", count=2) == [
        ["HOST://localhost:29092", "DOCKER://broker:19092"],
        ["HOST://localhost:29093", "DOCKER://broker:19093"],
    ]


def test_a_free_port_is_one_for_every_node() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"})
    nodes = nodes_of(config, Node(config), 2, racks=["a", "b", "c"])

    assert [listener.port for node in nodes for listener in node.wanted] == [0, 0]
    assert [(node.node_id, node.rack) for node in nodes] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(("listeners", "count"), [("HOST://:65534", 3), ("HOST://:9092", 0), ("HOST://:9092", 101)])
def test_nodes_that_cannot_be(listeners: str, count: int) -> None:
    with pytest.raises(ConfigurationError):
        addresses(listeners, count=count)
