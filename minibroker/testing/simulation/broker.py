"""A broker that clients see as several.

They share one set of data. Leaders can be moved, nodes stopped, data exchanged.

    broker = SimulatedBroker(config, broker_count=3)    three brokers: node.id and the two ids after it
    broker.leadership.move(partition, 2)
    broker.stop_node(2); await broker.start_node(2)
    broker.exchange_data(lambda: other_files)

`serve --brokers 3` and the test kit use it. This is the place where several brokers are installed
around the core: handlers are wrapped (routing.py), `ctx.broker.nodes` and `Cluster.leadership` are
set, and each node gets its listeners. With `broker_count=1` nothing is installed until the first
use of `leadership`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Final

from minibroker.clock import Clock
from minibroker.cluster.nodes import EligibleLeaders, Node, Nodes, PartitionNodes
from minibroker.cluster.partition import Partition
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import NODES_MAX, PORT_MAX
from minibroker.dispatch.context import Services
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.server.broker import Broker
from minibroker.server.loop_background import LoopBackground
from minibroker.server.served_node import ServedNode
from minibroker.storage.files import Files
from minibroker.testing.simulation.leadership import SimulatedLeadership
from minibroker.testing.simulation.routing import with_routing

log = logging.getLogger(__name__)

_DEFAULT_REPLICATION_FACTOR: Final = 3  #: of all topics, unless the configuration says otherwise
_REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


class SimulatedBroker(Broker):
    """A broker that plays a cluster of `broker_count` brokers."""

    def __init__(
        self,
        config: BrokerConfig,
        files: Files | None = None,
        *,
        broker_count: int = 1,
        racks: Sequence[str] = (),
        ports: Sequence[int] = (),
        **parts: Any,
    ) -> None:
        """Make a broker that does not run yet.

        Args:
            config: the properties of the first broker.
            files: the file system of its log directories.
            broker_count: how many brokers clients see.
            racks: the racks of the brokers in turn.
            ports: of the first listener of each broker, instead of the configured ones.
            parts: further arguments of `Broker`.
        """
        super().__init__(config, files, **parts)
        self._broker_count = broker_count
        self._racks = racks
        self._ports = ports
        self._opening = asyncio.Lock()  #: held while nodes open, and while they close for good: a node opens once, and none after the end
        self._reopenings: set[asyncio.Task[None]] = set()  #: of nodes that were stopped when data were exchanged

    @property
    def leadership(self) -> SimulatedLeadership:
        """The leaders of all partitions, which can be moved.

        Its first use makes a single broker a cluster of one.
        """
        leadership = self.cluster.leadership
        if not isinstance(leadership, SimulatedLeadership):
            (alone,) = self.nodes
            leadership = self._simulate(alone.services)
            alone.serve_from(alone.services)
            self.answer_parked()
        return leadership

    def answer_parked(self) -> None:
        """Answer each waiting Fetch with the present records: from now on, other handlers serve requests."""
        for connection in self.connections:
            connection.answer_parked()

    def _open(self, clock: Clock, background: LoopBackground) -> list[Services]:
        if self._broker_count > 1 and not self.config.minibroker_like_kafka:
            factor = str(min(self._broker_count, _DEFAULT_REPLICATION_FACTOR))
            self.config.static.update(dict.fromkeys(_REPLICATION_FACTORS, factor) | self.config.static)
        if self._racks:
            self.config.static["broker.rack"] = self._racks[0]
        return super()._open(clock, background)

    def _services_of_nodes(self, services: Services) -> list[Services]:
        if self._broker_count == 1:
            return [services]
        leadership = self._simulate(services)
        others = list(leadership.nodes.values())[1:]
        return [services, *(services.seen_from(SimulatedNodes(node, leadership)) for node in others)]

    def _simulate(self, services: Services) -> SimulatedLeadership:
        """Install the simulation: nodes reject requests that other nodes have to serve."""
        nodes = nodes_of(self.config, self.cluster.node, self._broker_count, self._racks)
        leadership = SimulatedLeadership(self.cluster, nodes, self._files)
        services.registry = with_routing(services.registry)
        services.nodes = SimulatedNodes(nodes[0], leadership)
        return leadership

    def _make_node(self, services: Services) -> ServedNode:
        port = self._ports[len(self.nodes)] if self._ports else 0
        return ServedNode(services, self._make_dispatcher, self._make_connection, port)

    # Other data

    def exchange_data(self, exchange: Callable[[], Files]) -> None:
        """Serve other data from now on, on the same addresses and connections; the old data are left as by a crash.

        `exchange` is called when nothing is open. It returns the file system in which the data are
        now: the same one with other files in `log.dirs`, or another one. Requests that wait are
        answered; connections are closed whose requests cannot be answered. For clients it is the
        same cluster, and the same coordinator. No producer id is given out again.

        Raises:
            ConfigurationError: the broker cannot start on these data. It serves nothing any more and must be stopped.
        """
        cluster, clock, background = self.cluster, self._clock, self._background
        if clock is None or background is None:
            raise RuntimeError("the broker is not running")
        for connection in self.connections:
            connection.leave_all()
        self._leave(clean=False)
        self._files = exchange()
        self.config.static["cluster.id"] = cluster.cluster_id
        self.config.set_dynamic({}, {})
        all_services = self._open(clock, background)
        self.cluster.metadata.skip_producer_ids(cluster.image.next_producer_id)
        all_services[0].coordinators.take_over(cluster.topics)
        for node, services in zip(self.nodes, all_services, strict=True):
            node.serve_from(services)
        if not all(node.is_open for node in self.nodes):
            reopening = asyncio.ensure_future(self._reopen())
            self._reopenings.add(reopening)
            reopening.add_done_callback(self._reopenings.discard)

    # Nodes that stop and start

    def stop_node(self, node_id: int) -> None:
        """Stop one broker: others lead its partitions, its listeners and connections are closed.

        Does nothing if it is stopped.

        Raises:
            KeyError: no broker has this id.
        """
        node = self._node(node_id)
        self.leadership.stop(node_id)
        node.cut()

    async def start_node(self, node_id: int) -> None:
        """Start one broker on its ports. Does nothing if it runs.

        Raises:
            KeyError: no broker has this id.
            ConfigurationError: it cannot listen.
            KafkaStorageError: the metadata log cannot be written.
        """
        node = self._node(node_id)
        async with self._opening:
            await self._open_node(node)
            try:
                self.leadership.start(node_id)
            except KafkaError:
                node.cut()
                raise

    def _node(self, node_id: int) -> ServedNode:
        if not self.nodes:
            raise RuntimeError("the broker is not running")
        return {each.node.node_id: each for each in self.nodes}[node_id]

    async def _open_node(self, node: ServedNode) -> None:
        """Open a node unless it is open; the caller has the lock."""
        if self._clock is None or node not in self.nodes:
            raise RuntimeError("the broker is not running")
        if not node.is_open:
            await node.open(self._clock)

    async def _reopen(self) -> None:
        """Open nodes that were stopped and lead again after an exchange of data; a node that cannot listen is stopped."""
        async with self._opening:
            for node in self.nodes:
                if not self._is_alive(node):
                    continue  # stopped again meanwhile
                try:
                    await self._open_node(node)
                except ConfigurationError as error:
                    log.warning("node %d stays stopped: %s", node.node.node_id, error)
                    self.stop_node(node.node.node_id)
                if not self._is_alive(node):
                    node.cut()  # stopped while it was being opened

    def _is_alive(self, node: ServedNode) -> bool:
        return node.node.node_id in self.cluster.leadership.alive_ids

    async def _close_nodes(self, timeout_s: float) -> None:
        async with self._opening:
            await super()._close_nodes(timeout_s)
        await asyncio.gather(*self._reopenings, return_exceptions=True)  # they find nothing to open


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
        """The first broker that runs.

        Any will do: brokers of Apache Kafka also name any broker, which forwards requests.
        """
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
    """Return the nodes of a cluster, the configured one first.

    They are in `racks` in turn: a, b, a for 3 nodes in racks a and b.

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
    for listener in further[-1].configured if further else ():
        if listener.port > PORT_MAX:
            raise ConfigurationError(
                f"listeners: node {further[-1].node_id} would get {listener}, but the highest port is {PORT_MAX}. Choose lower ports, or 0"
            )
    return [own, *further]


def _port_step(config: BrokerConfig, broker_count: int) -> int:
    """Return the distance of the ports of two nodes: 1, or more if two listeners would have the same port."""
    sides = [[each.port for each in listeners if each.port] for listeners in (config.listeners, config.advertised_listeners)]

    def is_free(step: int) -> bool:
        taken = [{port + number * step for port in ports for number in range(broker_count)} for ports in sides]
        return all(len(each) == len(set(ports)) * broker_count for each, ports in zip(taken, sides, strict=True))

    return next(step for step in count(1) if is_free(step))
