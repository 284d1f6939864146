"""The simulated brokers: what each of them sees of the others, and their ids, ports and racks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from minibroker.cluster.nodes import EligibleLeaders, Node, Nodes, PartitionNodes
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import NODES_MAX, PORT_MAX
from minibroker.errors import ConfigurationError
from minibroker.testing.simulation.leadership import SimulatedLeadership


class SimulatedNodes(Nodes):
    """The brokers as one of them sees them. Also one broker alone, if a test takes its leaders away."""

    def __init__(self, own: Node, leadership: SimulatedLeadership) -> None:
        super().__init__(own)
        self._leadership = leadership

    @property
    def alive(self) -> Sequence[Node]:
        """Brokers that run, by id."""
        return [self._leadership.nodes[node_id] for node_id in sorted(self._leadership.alive)]

    @property
    def registered(self) -> Sequence[Node]:
        """All brokers by id, also stopped ones."""
        return [node for _, node in sorted(self._leadership.nodes.items())]

    @property
    def controller_id(self) -> int:
        """The first broker that runs. Any will do: brokers of Apache Kafka also name any broker, which forwards requests."""
        return min(self._leadership.alive, default=self.own.node_id)

    def find(self, node_id: int) -> Node | None:
        """Return a broker, running or not."""
        return self._leadership.nodes.get(node_id)

    def of(self, partition: Partition) -> PartitionNodes:
        """Return leader, replicas and in-sync replicas."""
        return self._leadership.of(partition)

    def eligible(self, partition: Partition) -> EligibleLeaders:
        """Return the eligible leaders."""
        return self._leadership.eligible(partition)


def nodes_of(config: BrokerConfig, own: Node, broker_count: int, racks: Iterable[str] = ()) -> list[Node]:
    """Return the nodes of a cluster, the configured one first. They are in `racks` in turn: a, b, a for 3 nodes in racks a and b.

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
    """Return the distance of the ports of two nodes: 1, or more if two listeners would have the same port."""
    sides = [[each.port for each in listeners if each.port] for listeners in (config.listeners, config.advertised_listeners)]

    def is_free(step: int) -> bool:
        taken = [{port + number * step for port in ports for number in range(broker_count)} for ports in sides]
        return all(len(each) == len(set(ports)) * broker_count for each, ports in zip(taken, sides, strict=True))

    return next(step for step in count(1) if is_free(step))
