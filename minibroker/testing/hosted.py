"""A broker on its event loop, with its options, its data, which survive stops, and its request log; the three forms share it.

Everything runs on the loop's thread, except `request_log` and the plain attributes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from minibroker.cluster.cluster import NewTopic
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.context import Services
from minibroker.errors import ConfigurationError, KafkaError
from minibroker.extras import install_command
from minibroker.metrics.meter import Meter, MeteredConnection
from minibroker.storage.files import Files
from minibroker.testing.data import Data, FolderData, Snapshot, data_of
from minibroker.testing.faults.effects import TearingConnection
from minibroker.testing.faults.faults import RequestFaults
from minibroker.testing.lab.lab import Lab
from minibroker.testing.moving_clock import MovingClock
from minibroker.testing.options import HOST, BrokerError, BrokerOptions, one_line_error
from minibroker.testing.recording import RecordingDispatcher, RequestObserver
from minibroker.testing.request_log import RequestLog
from minibroker.testing.simulation.broker import SimulatedBroker

if TYPE_CHECKING:
    from minibroker.metrics.scrape import Scraper
    from minibroker.security.certificates import Authority
    from minibroker.server.listener import Listener
    from minibroker.telemetry.clients import ClientInstance
    from minibroker.testing.hosted_registry import HostedRegistry

_TURNS: Final = 100  #: of the loop, for work that takes several


class _Connection(MeteredConnection, TearingConnection):
    """A connection that is counted, and that faults can tear."""

    __slots__ = ()


class HostedBroker:
    """A broker that can be stopped, started again, and get other data."""

    stop_timeout_s = 0.5  #: for clients that do not read their answers, or wait for others

    def __init__(self, options: BrokerOptions) -> None:
        self._options = options
        self.access = options.access
        self._data: Data | None = None
        self._broker: SimulatedBroker | None = None
        self._clock: MovingClock | None = None
        self._dispatcher: RecordingDispatcher | None = None
        self._cluster_id: str | None = None
        self._has_topics = False
        self.faults = RequestFaults(self._rebuild_dispatchers, lambda _ctx, rule: self._hit_faults.append(str(rule)), self._answer_parked)
        self.observer: RequestObserver | None = None  #: looks at all requests; set before the start
        self.meter = Meter(with_commits=True)
        self._scraper: Scraper | None = None  #: from the first use of a metric on
        self._hit_faults: list[str] = []  #: faults that hit the request that is being served; the dispatcher takes them
        self._registry: HostedRegistry | None = None  #: from the first use of it on
        self.lab = Lab(self, self.faults)
        self.ports = options.ports  #: of each broker that clients see; after `start`, those in use
        self.bootstrap_servers = ""

    @property
    def is_running(self) -> bool:
        """Whether the broker serves."""
        return self._broker is not None

    @property
    def broker(self) -> SimulatedBroker:
        """The running broker. Raises BrokerError if there is none."""
        return self._running()[0]

    @property
    def registry(self) -> HostedRegistry:
        """The schema registry. Raises BrokerError if a package is missing."""
        if self._registry is None:
            from minibroker.testing.hosted_registry import HostedRegistry  # noqa: PLC0415  most tests use no schemas

            self._registry = HostedRegistry(lambda: self.broker, self.lab.registry_faults, self._options.schemas)
            if self._broker is not None:
                self._broker.config.has_schema_registry = True
                self.lab.use_handlers(self._registry.make_registry)
        return self._registry

    @property
    def clock(self) -> MovingClock:
        """The broker's clock. Raises BrokerError before the first start."""
        if self._clock is None:
            raise BrokerError("the broker is not running")
        return self._clock

    @property
    def now_ms(self) -> int:
        """The broker's time, epoch milliseconds; before the first start, the system's."""
        return time.time_ns() // 1_000_000 if self._clock is None else self._clock.now_ms()

    @property
    def request_count(self) -> int:
        """The number of requests since the start, also of those that `request_log` no longer has."""
        return 0 if self._dispatcher is None else self._dispatcher.request_count

    @property
    def pushing_clients(self) -> list[ClientInstance]:
        """The clients that push their metrics; none while telemetry is off."""
        telemetry = self.broker.nodes[0].services.telemetry
        return [] if telemetry is None else telemetry.clients()

    @property
    def authority(self) -> Authority | None:
        """The authority that signed the broker's certificate, if the test kit made it."""
        return None if self.access is None or self.access.certificates is None else self.access.certificates.authority

    @property
    def data_dir(self) -> Path | None:
        """The folder of the data; None: in memory, or not started yet."""
        return Path(self._data.log_dir) if isinstance(self._data, FolderData) else None

    @property
    def request_log(self) -> RequestLog:
        """Requests of clients; empty before the first start."""
        return RequestLog() if self._dispatcher is None else self._dispatcher.request_log

    async def start(self) -> None:
        """Serve. Raises BrokerError, a single line, if it cannot."""
        if self._broker is not None:
            raise BrokerError("the broker is already running")
        if self._data is None:
            self._data = self._make_data()
        self.lab.forget()
        try:
            broker = self._make_broker(self._data, self.lab.storage.over(self._data.files()))
            broker.config.has_schema_registry |= self._registry is not None
            await broker.start()
        except ConfigurationError as error:
            raise BrokerError(f"the broker does not start: {error}") from error
        self._broker = broker
        self._cluster_id = broker.cluster.cluster_id
        self.bootstrap_servers = ",".join(self.lab.nodes.addresses.values())
        self.ports = [node.listeners[0].port for node in broker.nodes]
        if not self._has_topics:
            try:
                self._create_topics(broker)
                await self._register_schemas()
            except BrokerError:
                await self.stop()
                raise

    def _make_data(self) -> Data:
        return data_of(self._options)

    def _make_broker(self, data: Data, files: Files) -> SimulatedBroker:
        access = self._options.access
        protocol = "PLAINTEXT" if access is None else access.protocol
        own = {"log.dirs": data.log_dir, "listeners": f"{protocol}://{HOST}:{self.ports[0]}"}
        if self._cluster_id is not None:
            own["cluster.id"] = self._cluster_id
        shape: dict[str, Any] = {"broker_count": self._options.brokers, "racks": self._options.racks, "ports": self.ports}
        if access is not None:
            shape["on_open"] = access.initial.write
        return SimulatedBroker(BrokerConfig(own | self._options.config), files, **shape, **self.hooks())

    def hooks(self) -> dict[str, Any]:
        """Arguments of server.Broker for a broker under test."""
        return {
            "make_clock": self._make_clock,
            "make_dispatcher": self._make_dispatcher,
            "make_registry": self.faults.make_registry,
            "make_connection": self._make_connection,
        }

    def _make_clock(self, loop: asyncio.AbstractEventLoop) -> MovingClock:
        self._clock = MovingClock(loop)
        return self._clock

    def _make_dispatcher(self, services: Services) -> RecordingDispatcher:
        dispatcher = RecordingDispatcher(services, self._hit_faults, self.observer)
        if self._dispatcher is not None and services.nodes.own is not services.cluster.node:
            dispatcher.record_with(self._dispatcher)
        else:
            self._dispatcher = dispatcher
        return self.meter.around(dispatcher)

    def _make_connection(self, listener: Listener) -> MeteredConnection:
        if listener.secured is not None or listener.sasl is not None:
            self.lab.logins.watch(listener, self._clock)
        return self.meter.connect(_Connection(listener))

    def _rebuild_dispatchers(self) -> None:
        """Let the dispatchers look up their handlers again."""
        if self._broker is not None:
            for node in self._broker.nodes:
                node.serve_from(node.services)

    def _answer_parked(self) -> None:
        """Answer waiting Fetch requests with the present records."""
        if self._broker is not None:
            self._broker.answer_parked()

    def _create_topics(self, broker: SimulatedBroker) -> None:
        new_topics: list[NewTopic] = []
        for name, partition_count in self._options.topics.items():
            if name not in broker.cluster.topics:
                try:
                    new_topics.append(
                        broker.cluster.new_topic(name, partition_count=partition_count, beside=[each.name for each in new_topics])
                    )
                except KafkaError as error:
                    raise BrokerError(f"topics: {name!r} cannot be created: {error}") from error
        broker.cluster.create_topics(new_topics, at_first_use=True)  # most tests use a few of their topics
        self._has_topics = True

    async def _register_schemas(self) -> None:
        if self._options.schemas:
            await self.registry.register_schemas()

    async def stop(self) -> None:
        """Answer pending requests, close the logs and stop."""
        broker, self._broker = self._broker, None
        self.faults.end_silences()
        if self._registry is not None:
            await self._registry.stop()
        if broker is not None:
            await broker.stop(self.stop_timeout_s)

    def remove_data(self) -> None:
        """Remove temporary data; the broker is not started again."""
        if self._data is not None:
            self._data.close()

    def _running(self) -> tuple[SimulatedBroker, Data]:
        if self._broker is None or self._data is None:
            raise BrokerError("the broker is not running: start() it first, or use it as a context manager")
        return self._broker, self._data

    async def reset(self) -> None:
        """Remove all data, create the topics of the options and register their schemas."""
        broker, data = self._running()
        with one_line_error("reset"):
            self._exchange(broker, data, data.clear)
        self._create_topics(broker)
        await self._register_schemas()

    def snapshot(self) -> Snapshot:
        """Copy the data."""
        broker, data = self._running()
        with one_line_error("snapshot"):
            if self.data_dir is not None:
                broker.cluster.logs.finish_opening()  # `restore` opens all logs, whose folders must be in the snapshot
            return data.copy()

    def restore(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot back."""
        broker, data = self._running()
        data.check(snapshot)
        with one_line_error("restore"):
            self._exchange(broker, data, lambda: data.take(snapshot))

    def reopen_logs(self) -> None:
        """Open all logs again, as after a crash: failed directories are online, and what they lost is cut off."""
        broker, data = self._running()
        broker.exchange_data(lambda: self.lab.storage.over(data.files()))

    async def metrics(self, name: str) -> list[dict[str, Any]]:
        """Return the series of a metric. Raises BrokerError for an unknown name, or without the extra `metrics`."""
        if self._scraper is None:
            try:
                from minibroker.metrics.names import ALL  # noqa: PLC0415  most tests look at no metrics
                from minibroker.metrics.scrape import scraper_of  # noqa: PLC0415  likewise
            except ImportError as error:
                raise BrokerError(f"metrics need prometheus-client: {install_command('metrics')}") from error
            self._scraper = scraper_of(lambda: self.broker, self.meter, ALL)
        try:
            return await self._scraper.series(name)
        except LookupError as error:
            raise BrokerError(f"metrics: {error}") from error

    async def advance(self, delta: timedelta) -> None:
        """Advance the clock, and let the loop do what is due."""
        self._running()
        if delta < timedelta():
            raise BrokerError(f"advance: the time must not be negative, got {delta.total_seconds():,.15g} s")
        if self._clock is not None:
            self._clock.advance(delta / timedelta(milliseconds=1))
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def _exchange(self, broker: SimulatedBroker, data: Data, change: Callable[[], None]) -> None:
        if self._clock is not None:
            self._clock.return_to_present()
        self.lab.forget()
        failures: list[OSError] = []

        def exchange() -> Files:
            try:
                change()
            except OSError as error:  # some of the files are gone: remove the others as well
                failures.append(error)
                data.clear()
            return self.lab.storage.over(data.files())

        broker.exchange_data(exchange)
        self.meter.clear()
        self._scraper = None
        if self._dispatcher is not None:
            self._dispatcher.clear()
        if failures:
            raise failures[0]
