"""A broker, put together: cluster, dispatcher, listeners, and the timers that keep them.

    broker = Broker(config); await broker.start(); ...; await broker.stop()
    Broker(config, broker_count=3)                     three brokers to clients, on the data of one: node.id, and the two behind it
    broker.exchange_data(lambda: other_files)          while it runs: for tests (minibroker/testing)

Start: registry, then cluster (locks and recovers the log directories), then sockets. A client that can connect is served.
Stop: no new connections; requests that were read are answered, parked ones at once; then the logs are closed cleanly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.node import nodes_of
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import leads_to
from minibroker.dispatch import registry
from minibroker.dispatch.context import Services
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.flush_timer import FlushTimer
from minibroker.dispatch.purgatory import Purgatory
from minibroker.dispatch.registry import Registry
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.server.connection import Connection
from minibroker.server.listener import AcceptedConnection, Listener
from minibroker.server.loop_background import LoopBackground
from minibroker.server.loop_clock import LoopClock, watchdog_of
from minibroker.server.served_node import ServedNode
from minibroker.storage.files import Files, RealFiles

if TYPE_CHECKING:
    from minibroker.cluster.leadership import Leadership

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 10  #: connections that do not take their last answers by then are cut
_BACKGROUND_THREADS: Final = 4
_REPLICAS_USUAL: Final = 3  #: of all topics, where several brokers are shown and nobody says otherwise
REPLICATION_FACTORS: Final = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


class Broker:
    """One running broker; belongs to the loop that starts it."""

    def __init__(
        self,
        config: BrokerConfig,
        files: Files | None = None,
        *,
        make_clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock,
        make_dispatcher: Callable[[Services], Dispatcher] = Dispatcher,
        make_registry: Callable[[], Registry] = registry.load,
        make_connection: Callable[[Listener], AcceptedConnection] = Connection,
        broker_count: int = 1,
        racks: Sequence[str] = (),
        ports: Sequence[int] = (),
        on_all_offline: Callable[[], None] | None = None,
    ) -> None:
        """A broker that does not run yet.

        `make_registry`: handlers with something around them (dispatch/middleware.py); asked whenever data are opened.
        `broker_count`: how many brokers clients see; `racks`: theirs in turn; `ports`: where the first listener of each is to be.
        `on_all_offline`: called when the last log directory goes offline; without it the broker goes on and answers with errors.
        """
        self.config = config
        self._broker_count = broker_count
        self._racks = racks
        self._ports = ports
        self._on_all_offline = on_all_offline
        self._make_clock = make_clock
        self._make_dispatcher = make_dispatcher
        self._make_registry = make_registry
        self._make_connection = make_connection
        self._clock: Clock | None = None
        self.nodes: list[ServedNode] = []  #: by id; written by start and stop
        self._opening = asyncio.Lock()  #: held by who opens nodes, and by the stop: a node opens once, and none behind the end
        self._reopenings: set[asyncio.Task[None]] = set()  #: of nodes that were stopped when data were exchanged
        self._services: Services | None = None
        self._files = files or RealFiles()
        self._cluster: Cluster | None = None
        self._background: LoopBackground | None = None
        self._flush_timer: FlushTimer | None = None

    @property
    def cluster(self) -> Cluster:
        """What the broker holds; only between start and stop."""
        if self._cluster is None:
            raise RuntimeError("the broker is not running")
        return self._cluster

    @property
    def purgatory(self) -> Purgatory:
        """Requests that wait; only after start."""
        if self._services is None:
            raise RuntimeError("the broker is not running")
        return self._services.purgatory

    @property
    def listeners(self) -> list[Listener]:
        """Open ones of all nodes."""
        return [listener for node in self.nodes for listener in node.listeners]

    @property
    def addresses(self) -> list[str]:
        """`NAME://host:port` as clients are told, one for each listener of each node; with the bound address where that is another one."""
        return [
            str(told) if leads_to(told, bound) else f"{told} (listens on {bound})"
            for node in self.nodes
            for told, bound in zip(node.node.listeners, node.node.wanted, strict=True)
        ]

    @property
    def leadership(self) -> Leadership:
        """Who leads what, to be moved; from the first time on that it is asked for, requests are held against it."""
        leadership = self.cluster.leadership
        if leadership is None:
            (alone,) = self.nodes
            leadership = self._lead(alone.services)
            alone.serve_from(alone.services)
            self.answer_parked()
        return leadership

    def answer_parked(self) -> None:
        """Requests are served otherwise from now on: a Fetch that waits is answered with what there is, and its client asks again."""
        for connection in [connection for node in self.nodes for connection in node.connections]:
            connection.answer_parked()

    async def start(self) -> None:
        """Serve. When this fails nothing is left open.

        Raises:
            ConfigurationError: the log directories or the addresses cannot be used; one line says why.
        """
        loop = asyncio.get_running_loop()
        clock = self._clock = self._make_clock(loop)
        self._background = LoopBackground(loop, _BACKGROUND_THREADS, has_processes=self._files.is_shared, watchdog=watchdog_of(clock))
        try:
            for number, services in enumerate(self._open(clock, self._background)):
                node = ServedNode(services, self._make_dispatcher, self._make_connection, self._ports[number] if self._ports else 0)
                self.nodes.append(node)
                await node.open(clock)
        except BaseException:
            await self.stop()
            raise

    def _open(self, clock: Clock, background: LoopBackground) -> list[Services]:
        """Everything that stands on the data: the parts of each node."""
        if self._broker_count > 1 and not self.config.minibroker_like_kafka:
            usual = dict.fromkeys(REPLICATION_FACTORS, str(min(self._broker_count, _REPLICAS_USUAL)))
            self.config.static.update(usual | self.config.static)
        if self._racks:
            self.config.static["broker.rack"] = self._racks[0]
        self._cluster = Cluster.open(self.config, self._files, clock, background)
        self._cluster.logs.on_all_offline = self._on_all_offline
        services = Services(config=self.config, cluster=self._cluster, clock=clock, background=background, registry=self._make_registry())
        self._services = services
        all_services = [services]
        if self._broker_count > 1:
            from minibroker.cluster.several_nodes import SeveralNodes  # noqa: PLC0415  one broker alone does without

            leadership = self._lead(services)
            all_services += [services.seen_from(SeveralNodes(node, leadership)) for node in list(leadership.nodes.values())[1:]]
        services.coordinators.start()
        self._flush_timer = FlushTimer(self._cluster, clock, services.flush_queue, self.config.log_flush_scheduler_interval_ms)
        return all_services

    def _lead(self, services: Services) -> Leadership:
        """Let leaders be other than this one node: clients see what is said, and requests to the wrong node are refused."""
        from minibroker.cluster.several_nodes import SeveralNodes  # noqa: PLC0415  one broker alone does without
        from minibroker.dispatch.wrong_node import guarded  # noqa: PLC0415  as above

        nodes = nodes_of(self.config, self.cluster.node, self._broker_count, self._racks)
        leadership = self.cluster.lead(nodes)
        services.registry = guarded(services.registry)
        services.nodes = SeveralNodes(nodes[0], leadership)
        return leadership

    def _leave(self, *, clean: bool) -> None:
        """Write nothing more; a clean end makes the next start trust the logs."""
        if self._flush_timer is not None:
            self._flush_timer.stop()
        services, self._services = self._services, None
        if services is not None:
            services.coordinators.stop()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close(clean=clean)

    def exchange_data(self, exchange: Callable[[], Files]) -> None:
        """Serve other data from now on, on the same addresses and connections; the old are left as by a crash.

        `exchange` is called when nothing is open, and says where the data are now: the same file system with other files in `log.dirs`,
        or another one. Requests that wait are answered; connections whose requests cannot be are closed. To its clients it is the same
        cluster, and their coordinator if it was that; no producer id is given out again.

        Raises:
            ConfigurationError: the broker cannot start on these data. It serves nothing any more and must be stopped.
        """
        cluster, clock, background = self.cluster, self._clock, self._background
        if clock is None or background is None:
            raise RuntimeError("the broker is not running")
        for connection in [connection for node in self.nodes for connection in node.connections]:
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

    # Several nodes

    def stop_node(self, node_id: int) -> None:
        """One broker is gone, as clients see it: others lead what it led, its listeners are closed and its connections cut.

        KeyError: there is none of that id. Harmless when it is gone already.
        """
        node = self._node(node_id)
        self.leadership.stop(node_id)
        node.cut()

    async def start_node(self, node_id: int) -> None:
        """It is back, on its ports; KeyError, ConfigurationError, KafkaStorageError. Harmless when it is there."""
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
        """Where it is closed and the broker runs; the caller has the lock."""
        if self._clock is None or node not in self.nodes:
            raise RuntimeError("the broker is not running")
        if not node.is_open:
            await node.open(self._clock)

    async def _reopen(self) -> None:
        """Let nodes that were stopped, and lead again since the data are others, be reached; those that cannot are stopped."""
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
        leadership = self.cluster.leadership
        return leadership is None or node.node.node_id in leadership.alive

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Answer what was asked, close the logs cleanly, release everything. Harmless when nothing runs."""
        async with self._opening:
            for node in self.nodes:
                node.stop_accepting()
            await self._drain(timeout_s)
            self.nodes = []
        await asyncio.gather(*self._reopenings, return_exceptions=True)  # they find nothing left to open
        self._leave(clean=True)
        if self._background is not None:
            self._background.close()

    async def _drain(self, timeout_s: float) -> None:
        """Let every connection answer what it has read; cut those that are not done in time."""
        connections = [connection for node in self.nodes for connection in node.connections]
        for connection in connections:
            connection.close()
        if self._services is not None:
            self._services.coordinators.send_away()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while any(listener.connections for listener in self.listeners):
            if asyncio.get_running_loop().time() > deadline:
                log.warning("cutting %d connections that do not take their answers", sum(len(each.connections) for each in self.listeners))
                for connection in connections:
                    connection.abort()
            await asyncio.sleep(0.005)
