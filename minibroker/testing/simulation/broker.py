"""A broker that clients see as several, on the data of one; its leaders can be moved, its nodes stopped, its data exchanged.

    broker = SimulatedBroker(config, broker_count=3)    three brokers: node.id and the two ids after it
    broker.leadership.move(partition, 2)
    broker.stop_node(2); await broker.start_node(2)
    broker.exchange_data(lambda: other_files)

`serve --brokers 3` and the test kit use it. This is the place where several brokers are installed around the core: handlers are wrapped
(routing.py), `ctx.broker.nodes` and `Cluster.leadership` are set, and each node gets its listeners. With `broker_count=1` nothing is
installed until `leadership` is asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from minibroker.clock import Clock
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.context import Services
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.server.broker import Broker
from minibroker.server.loop_background import LoopBackground
from minibroker.server.served_node import ServedNode
from minibroker.storage.files import Files
from minibroker.testing.simulation.leadership import SimulatedLeadership
from minibroker.testing.simulation.nodes import SimulatedNodes, nodes_of
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
        """The leaders of all partitions, which can be moved. Asking for it the first time makes one broker a cluster of one."""
        leadership = self.cluster.leadership
        if not isinstance(leadership, SimulatedLeadership):
            (alone,) = self.nodes
            leadership = self._simulate(alone.services)
            alone.serve_from(alone.services)
            self.answer_parked()
        return leadership

    def answer_parked(self) -> None:
        """Answer each Fetch that waits with the records that there are: requests are served otherwise from now on."""
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
        """Install the simulation: requests are answered by the leaders' places, and rejected by other nodes."""
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

        `exchange` is called when nothing is open. It returns the file system in which the data are now: the same one with other files in
        `log.dirs`, or another one. Requests that wait are answered; connections are closed whose requests cannot be answered. For clients
        it is the same cluster, and the same coordinator. No producer id is given out again.

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
        """Stop one broker: others lead its partitions, its listeners and connections are closed. Does nothing if it is stopped.

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
        """Open nodes that were stopped and lead again since the data are others; a node that cannot listen is stopped."""
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
