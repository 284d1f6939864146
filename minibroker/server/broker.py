"""A broker, put together: cluster, dispatcher, listeners, and the timers that keep them.

    broker = Broker(config); await broker.start(); ...; await broker.stop()
    broker.exchange_data(lambda: other_files)          while it runs: for tests (minibroker/testing)

Start: registry, then cluster (locks and recovers the log directories), then sockets. A client that can connect is served.
Stop: no new connections; requests that were read are answered, parked ones at once; then the logs are closed cleanly.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch import registry
from minibroker.dispatch.context import Services
from minibroker.dispatch.dispatcher import Dispatcher
from minibroker.dispatch.flush_timer import FlushTimer
from minibroker.dispatch.purgatory import Purgatory
from minibroker.errors import ConfigurationError
from minibroker.server.listener import Census, Limits, Listener
from minibroker.server.loop_background import LoopBackground
from minibroker.server.loop_clock import LoopClock
from minibroker.storage.files import Files, RealFiles

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 10  #: connections that do not take their last answers by then are cut
_BACKGROUND_THREADS: Final = 4
_BACKLOG: Final = 1024  #: Kafka's default of 50 lets a burst of connections wait a second for their second SYN


class Broker:
    """One running broker; belongs to the loop that starts it."""

    def __init__(
        self,
        config: BrokerConfig,
        files: Files | None = None,
        *,
        make_clock: Callable[[asyncio.AbstractEventLoop], Clock] = LoopClock,
        make_dispatcher: Callable[[Services], Dispatcher] = Dispatcher,
    ) -> None:
        self.config = config
        self._make_clock = make_clock
        self._make_dispatcher = make_dispatcher
        self._clock: Clock | None = None
        self._dispatcher: Dispatcher | None = None
        self.listeners: list[Listener] = []  #: open ones; written by start and stop
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
    def addresses(self) -> list[str]:
        """`NAME://host:port` as clients are told, one for each listener."""
        return [str(listener) for listener in self.cluster.node.listeners]

    async def start(self) -> None:
        """Serve. When this fails nothing is left open.

        Raises:
            ConfigurationError: the log directories or the addresses cannot be used; one line says why.
        """
        loop = asyncio.get_running_loop()
        clock = self._clock = self._make_clock(loop)
        self._background = LoopBackground(loop, _BACKGROUND_THREADS, has_processes=self._files.is_shared)
        try:
            services = self._open(clock, self._background)
            self._dispatcher = self._make_dispatcher(services)
            await self._listen(self._dispatcher, clock)
        except BaseException:
            await self.stop()
            raise

    def _open(self, clock: Clock, background: LoopBackground) -> Services:
        """Everything that stands on the data."""
        self._cluster = Cluster.open(self.config, self._files, clock, background)
        services = Services(config=self.config, cluster=self._cluster, clock=clock, background=background, registry=registry.load())
        self._services = services
        services.coordinators.start()
        self._flush_timer = FlushTimer(self._cluster, clock, services.flush_queue, self.config.log_flush_scheduler_interval_ms)
        return services

    def _leave(self, *, clean: bool) -> None:
        """Write nothing more; a clean end makes the next start trust the logs."""
        if self._flush_timer is not None:
            self._flush_timer.stop()
        if self._services is not None:
            self._services.coordinators.stop()
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
        cluster, clock, background, dispatcher = self.cluster, self._clock, self._background, self._dispatcher
        if clock is None or background is None or dispatcher is None:
            raise RuntimeError("the broker is not running")
        for connection in [connection for listener in self.listeners for connection in listener.connections]:
            connection.leave_all()
        self._leave(clean=False)
        self._files = exchange()
        self.config.static["cluster.id"] = cluster.cluster_id
        self.config.set_dynamic({}, {})
        services = self._open(clock, background)
        services.cluster.skip_producer_ids(cluster.image.next_producer_id)
        services.coordinators.take_over(cluster.topics)
        for listener in self.listeners:
            services.cluster.node.set_bound_port(listener.name, listener.port)
        dispatcher.serve_from(services)

    async def _listen(self, dispatcher: Dispatcher, clock: Clock) -> None:
        census = Census()
        backlog = self.config.socket_listen_backlog_size if "socket.listen.backlog.size" in self.config.static else _BACKLOG
        for wanted in self.config.listeners:
            listener = Listener(wanted.name, dispatcher, clock, lambda: limits_of(self.config), census, self._connection_throttle_ms)
            try:
                await listener.open(wanted.host, wanted.port, backlog)
            except OSError as error:
                raise ConfigurationError(f"listeners: cannot listen on {wanted}: {error.strerror or error}") from error
            self.listeners.append(listener)
            self.cluster.node.set_bound_port(wanted.name, listener.port)

    def _connection_throttle_ms(self, host: str) -> int:
        quotas = self._services.quotas if self._services is not None else None
        return 0 if quotas is None else quotas.connection_throttle_ms(host)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Answer what was asked, close the logs cleanly, release everything. Harmless when nothing runs."""
        for listener in self.listeners:
            listener.stop_accepting()
        await self._drain(timeout_s)
        self.listeners = []
        self._leave(clean=True)
        if self._background is not None:
            self._background.close()

    async def _drain(self, timeout_s: float) -> None:
        """Let every connection answer what it has read; cut those that are not done in time."""
        connections = [connection for listener in self.listeners for connection in listener.connections]
        for connection in connections:
            connection.close()
        deadline = asyncio.get_running_loop().time() + timeout_s
        while any(listener.connections for listener in self.listeners):
            if asyncio.get_running_loop().time() > deadline:
                log.warning("cutting %d connections that do not take their answers", sum(len(each.connections) for each in self.listeners))
                for connection in connections:
                    connection.abort()
            await asyncio.sleep(0.005)


def limits_of(config: BrokerConfig) -> Limits:
    """What connections may ask for. Socket buffers are the system's own, which adapt, unless the operator sizes them."""
    return Limits(
        request_max_bytes=config.socket_request_max_bytes,
        queued_max_requests=config.queued_max_requests,
        max_idle_ms=config.connections_max_idle_ms,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=config.max_connections_per_ip_overrides,
        send_buffer_bytes=config.socket_send_buffer_bytes if "socket.send.buffer.bytes" in config.static else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in config.static else -1,
    )
