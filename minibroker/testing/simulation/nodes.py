"""Several brokers in one process, seen from the one that was asked: `Nodes` by what `SimulatedLeadership` says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from minibroker.cluster.nodes.node import Node
from minibroker.cluster.nodes.nodes import EligibleLeaders, Nodes, PartitionNodes
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import NODES_MAX, PORT_MAX
from minibroker.errors import ConfigurationError
from minibroker.testing.simulation.leadership import SimulatedLeadership


class SimulatedNodes(Nodes):
    """Also of one broker whose leaders a test takes away."""

    def __init__(self, own: Node, leadership: SimulatedLeadership) -> None:
        super().__init__(own)
        self._leadership = leadership

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that can be reached, by id."""
        return [self._leadership.nodes[node_id] for node_id in sorted(self._leadership.alive)]

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also those that are stopped."""
        return [node for _, node in sorted(self._leadership.nodes.items())]

    @property
    def controller_id(self) -> int:
        """The first that is alive: any will do, as Apache Kafka's brokers name any of them and pass on what they are asked."""
        return min(self._leadership.alive, default=self.own.node_id)

    def find(self, node_id: int) -> Node | None:
        """A broker, alive or not."""
        return self._leadership.nodes.get(node_id)

    def of(self, partition: Partition) -> PartitionNodes:
        """Leader, replicas and in-sync set."""
        return self._leadership.of(partition)

    def eligible(self, partition: Partition) -> EligibleLeaders:
        """As the controller would say."""
        return self._leadership.eligible(partition)


def nodes_of(config: BrokerConfig, own: Node, broker_count: int, racks: Iterable[str] = ()) -> list[Node]:
    """So many nodes, the configured one first. `racks` are theirs in turn: "a", "b", "a" for 3 nodes in racks a, b; none: as configured.

    Raises:
        ConfigurationError: there is no port for a listener of a node.
    """
    if not 1 <= broker_count <= NODES_MAX:
        raise ConfigurationError(f"brokers: {broker_count} is not a number of 1 to {NODES_MAX}")
    step = _port_step(config, broker_count)
    names = list(racks)
    if names:
        own.rack = names[0]
    further = [
        Node(config, number=number, port_step=step, rack=names[number % len(names)] if names else None) for number in range(1, broker_count)
    ]
    for listener in further[-1].wanted if further else ():
        if listener.port > PORT_MAX:
            raise ConfigurationError(f"listeners: {listener} would be that of node {further[-1].node_id}: give lower ports, or 0")
    return [own, *further]


def _port_step(config: BrokerConfig, broker_count: int) -> int:
    """How far the ports of neighbours are apart: 1, or as far as it takes that no two listeners want the same port."""
    sides = [[each.port for each in listeners if each.port] for listeners in (config.listeners, config.advertised_listeners)]

    def is_free(step: int) -> bool:
        taken = [{port + number * step for port in ports for number in range(broker_count)} for ports in sides]
        return all(len(each) == len(set(ports)) * broker_count for each, ports in zip(taken, sides, strict=True))

    return next(step for step in count(1) if is_free(step))
