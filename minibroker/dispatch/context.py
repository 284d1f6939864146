"""What a handler is given besides its request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.fetch_session import FetchSessionCache
from minibroker.dispatch.coordinators import Coordinators
from minibroker.dispatch.flush_queue import FlushQueue
from minibroker.dispatch.purgatory import Purgatory
from minibroker.dispatch.registry import Registry

if TYPE_CHECKING:
    from minibroker.coordinator.group.coordinator import GroupCoordinator
    from minibroker.coordinator.transaction.coordinator import TransactionCoordinator


class ConnectionInfo:
    """What is known of a client's connection. The software's name and version are written by ApiVersions."""

    __slots__ = ("client_host", "client_software_name", "client_software_version", "listener_name")

    def __init__(self, listener_name: str, client_host: str) -> None:
        self.listener_name = listener_name  #: the listener that the client came in by; Metadata answers its advertised address
        self.client_host = client_host
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"


class Services:
    """The parts of a broker, put together once; each request's context points at them."""

    __slots__ = ("background", "clock", "cluster", "config", "coordinators", "flush_queue", "purgatory", "registry", "sessions")

    def __init__(self, *, config: BrokerConfig, cluster: Cluster, clock: Clock, background: Background, registry: Registry) -> None:
        self.config = config
        self.cluster = cluster
        self.clock = clock
        self.background = background
        self.registry = registry
        self.purgatory = Purgatory(clock)
        self.sessions = FetchSessionCache(clock, config.max_incremental_fetch_session_cache_slots)
        self.flush_queue = FlushQueue(clock, background)
        self.coordinators = Coordinators(cluster, config, clock, self.flush_queue)


class RequestContext:
    """One request's surroundings: its own header and connection, and the broker's parts."""

    __slots__ = ("api_version", "client_id", "cluster", "connection", "correlation_id", "services")

    def __init__(
        self, services: Services, connection: ConnectionInfo, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.services = services
        self.cluster = services.cluster
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    @property
    def config(self) -> BrokerConfig:
        """The broker's properties."""
        return self.services.config

    @property
    def clock(self) -> Clock:
        """The broker's time."""
        return self.services.clock

    @property
    def background(self) -> Background:
        """Where long work goes."""
        return self.services.background

    @property
    def registry(self) -> Registry:
        """What this broker serves."""
        return self.services.registry

    @property
    def purgatory(self) -> Purgatory:
        """Where a request waits for partitions to move."""
        return self.services.purgatory

    @property
    def sessions(self) -> FetchSessionCache:
        """Incremental fetch sessions."""
        return self.services.sessions

    @property
    def flush_queue(self) -> FlushQueue:
        """Where a Produce waits for its fsync."""
        return self.services.flush_queue

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactional ids."""
        return self.services.coordinators.transactions

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        return self.services.coordinators.groups
