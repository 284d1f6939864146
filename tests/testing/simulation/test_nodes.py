"""Ports, ids and racks of simulated brokers."""

from __future__ import annotations

import pytest

from minibroker.cluster.nodes import Node
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import ConfigurationError
from minibroker.testing.simulation.broker import nodes_of


def addresses(listeners: str, advertised: str | None = None, count: int = 3) -> list[list[str]]:
    fields = {"node.id": "5", "listeners": listeners, "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT"}
    config = BrokerConfig(fields | ({} if advertised is None else {"advertised.listeners": advertised}))
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

    assert [listener.port for node in nodes for listener in node.configured] == [0, 0]
    assert [(node.node_id, node.rack) for node in nodes] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(("listeners", "count"), [("HOST://:65534", 3), ("HOST://:9092", 0), ("HOST://:9092", 101)])
def test_nodes_that_cannot_be(listeners: str, count: int) -> None:
    with pytest.raises(ConfigurationError):
        addresses(listeners, count=count)
