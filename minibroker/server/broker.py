"""A broker, put together: cluster, dispatcher, listeners, and the timers that they need.

    broker = Broker(config); await broker.start(); ...; await broker.stop()

Start: the registry, then the cluster (it locks and recovers the log directories), then the sockets. A client that can connect is served.
Stop: accept no connections, answer the requests that were read (parked ones at once), then close the logs cleanly.

minibroker.testing.simulation derives a broker from this one that clients see as several.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.listeners import leads_to
from minibroker.dispatch import registry
from minibroker.dispatch.context import Services
from minibroker.dispatch.delayed import Purgatory
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.flush import FlushTimer
from minibroker.dispatch.registry import Registry
from minibroker.server.connection import Connection
from minibroker.server.listener import AcceptedConnection, Listener
from minibroker.server.loop import LoopClock, watchdog_of
from minibroker.server.loop_background import LoopBackground
from minibroker.server.served_node import ServedNode
from minibroker.storage.files import Files, RealFiles

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 10  #: connections that have not read their last answers by then are closed
_BACKGROUND_THREADS: Final = 4


class Broker:
    """One running broker; belongs to the event loop that starts it."""

    def __init__(
        self,
        config: BrokerConfig,
        files: Files | None = None,
        *,
        make_clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock,
        make_dispatcher: Callable[[Services], Dispatcher] = Dispatcher,
        make_registry: Callable[[], Registry] = registry.load,
        make_connection: Callable[[Listener], AcceptedConnection] = Connection,
        on_all_offline: Callable[[], None] | None = None,
        on_open: Callable[[Services], None] | None = None,
    ) -> None:
        """Create a broker that is not started.

        Args:
            config: its properties.
            files: the file system of its log directories.
            make_clock: creates the clock.
            make_dispatcher: creates the dispatcher of each node.
            make_registry: creates the registry each time data are opened; dispatch/middleware.py wraps handlers.
            make_connection: creates a connection for each client.
            on_all_offline: called when the last log directory goes offline. Without it the broker goes on and answers with errors.
            on_open: called when the data are open and no client can connect yet.
        """
        self.config = config
        self._on_all_offline = on_all_offline
        self._on_open = on_open
        self._make_clock = make_clock
        self._make_dispatcher = make_dispatcher
        self._make_registry = make_registry
        self._make_connection = make_connection
        self._clock: Clock | None = None
        self.nodes: list[ServedNode] = []  #: one while the broker runs; a simulated cluster has several, by id
        self._services: Services | None = None
        self._files = files or RealFiles()
        self._cluster: Cluster | None = None
        self._background: LoopBackground | None = None
        self._flush_timer: FlushTimer | None = None

    @property
    def cluster(self) -> Cluster:
        """The topics and logs; only between start and stop."""
        if self._cluster is None:
            raise RuntimeError("the broker is not running")
        return self._cluster

    @property
    def purgatory(self) -> Purgatory:
        """Waiting requests; only between start and stop."""
        if self._services is None:
            raise RuntimeError("the broker is not running")
        return self._services.purgatory

    @property
    def listeners(self) -> list[Listener]:
        """The open listeners."""
        return [listener for node in self.nodes for listener in node.listeners]

    @property
    def connections(self) -> list[AcceptedConnection]:
        """The connections of all listeners."""
        return [connection for listener in self.listeners for connection in listener.connections]

    @property
    def addresses(self) -> list[str]:
        """`NAME://host:port` of each listener as clients see it, followed by the bound address if it differs."""
        return [
            str(advertised) if leads_to(advertised, bound) else f"{advertised} (listens on {bound})"
            for node in self.nodes
            for advertised, bound in zip(node.node.listeners, node.node.configured, strict=True)
        ]

    async def start(self) -> None:
        """Open the data and the listeners. If this fails, nothing is left open.

        Raises:
            ConfigurationError: the log directories or the addresses cannot be used; the message is one line.
        """
        loop = asyncio.get_running_loop()
        clock = self._clock = self._make_clock(loop)
        self._background = LoopBackground(loop, _BACKGROUND_THREADS, has_processes=self._files.is_shared, watchdog=watchdog_of(clock))
        try:
            for services in self._open(clock, self._background):
                node = self._make_node(services)
                self.nodes.append(node)
                await node.open(clock)
        except BaseException:
            await self.stop()
            raise

    def _open(self, clock: Clock, background: LoopBackground) -> list[Services]:
        """Open the data. Returns the services of each node."""
        self._cluster = Cluster.open(self.config, self._files, clock, background)
        self._cluster.logs.on_all_offline = self._on_all_offline
        services = Services(config=self.config, cluster=self._cluster, clock=clock, background=background, registry=self._make_registry())
        if self.config.minibroker_like_kafka:
            from minibroker.dispatch.like_kafka import like_kafka  # noqa: PLC0415  most brokers do not need it

            services.registry = like_kafka(services.registry, services)
        self._services = services
        all_services = self._services_of_nodes(services)
        services.coordinators.start()
        if self._on_open is not None:
            self._on_open(services)
        if services.tokens is not None:
            services.tokens.start()
        self._flush_timer = FlushTimer(self._cluster, clock, services.flush_queue, self.config.log_flush_scheduler_interval_ms)
        return all_services

    def _services_of_nodes(self, services: Services) -> list[Services]:
        """Return the services of each node; called before the coordinators start."""
        return [services]

    def _make_node(self, services: Services) -> ServedNode:
        return ServedNode(services, self._make_dispatcher, self._make_connection)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Answer the requests that were read, close the logs cleanly, release everything. Does nothing if the broker does not run."""
        await self._close_nodes(timeout_s)
        self._leave(clean=True)
        if self._background is not None:
            self._background.close()

    async def _close_nodes(self, timeout_s: float) -> None:
        for node in self.nodes:
            node.stop_accepting()
        await self._drain(timeout_s)
        self.nodes = []

    async def _drain(self, timeout_s: float) -> None:
        """Let every connection answer what it has read; close those that are not done in time."""
        connections = self.connections
        for connection in connections:
            connection.close()
        if self._services is not None:
            self._services.coordinators.send_away()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while any(listener.connections for listener in self.listeners):
            if asyncio.get_running_loop().time() > deadline:
                log.warning(
                    "closing %d connections whose clients do not read their answers", sum(len(each.connections) for each in self.listeners)
                )
                for connection in connections:
                    connection.abort()
            await asyncio.sleep(0.005)

    def _leave(self, *, clean: bool) -> None:
        """Stop writing; a clean end lets the next start trust the logs."""
        if self._flush_timer is not None:
            self._flush_timer.stop()
        services, self._services = self._services, None
        if services is not None:
            services.coordinators.stop()
            if services.tokens is not None:
                services.tokens.stop()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.close(clean=clean)
