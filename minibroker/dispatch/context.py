"""The context of a request: its connection, and the services of the broker that serves it.

Coordinators are created at first use. A start without transactions and groups does not import them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.cluster import Charge, Cluster, free
from minibroker.cluster.metadata.features import GROUP_VERSION_FEATURE, SHARE_VERSION_FEATURE, STREAMS_VERSION_FEATURE
from minibroker.cluster.nodes import Nodes
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from minibroker.compilation import mypyc_attr
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.delayed import Purgatory
from minibroker.dispatch.flush import FlushQueue
from minibroker.dispatch.registry import Registry
from minibroker.dispatch.slices import RecordSteps, Slices
from minibroker.dispatch.telemetry_offer import TelemetryOffer
from minibroker.errors import UnsupportedVersion

if TYPE_CHECKING:
    from minibroker.cluster.metadata.acls import StoredAcls
    from minibroker.cluster.metadata.delegation_tokens import StoredTokens
    from minibroker.coordinator.group.coordinator import GroupCoordinator
    from minibroker.coordinator.share_partition.share_partitions import SharePartitions
    from minibroker.coordinator.share_state.persister import Persister
    from minibroker.coordinator.transaction.coordinator import TransactionCoordinator
    from minibroker.dispatch.quotas import Quotas
    from minibroker.schemas.internal.setting_records import ClientQuotaRecord
    from minibroker.security.audit import AuditLog
    from minibroker.security.authorizer import Authorizer, Rights
    from minibroker.telemetry.telemetry import Telemetry


class Coordinators:
    """The coordinators of one broker; part of its Services."""

    __slots__ = (
        "_clock", "_cluster", "_config", "_flush_queue", "_groups", "_share_partitions", "_share_persister", "_transactions",
        "is_restricted",
    )  # fmt: skip

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, flush_queue: FlushQueue) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._flush_queue = flush_queue
        self.is_restricted = False  #: an authorizer decides what members of groups see; written before the first group is loaded
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._share_persister: Persister | None = None
        self._share_partitions: SharePartitions | None = None

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of all groups."""
        if self._groups is None:
            from minibroker.coordinator.group.coordinator import GroupCoordinator  # noqa: PLC0415  a start does not need it

            self._groups = GroupCoordinator(self._cluster, self._config, self._clock, self._flush_queue.flush, lambda: self.share_persister)
            self._groups.live.topics.is_restricted = self.is_restricted
            self._groups.start()
        return self._groups

    @property
    def share_persister(self) -> Persister:
        """The share coordinator: the states of all share partitions."""
        if self._share_persister is None:
            from minibroker.coordinator.share_state.persister import Persister  # noqa: PLC0415  a start does not need it

            self._share_persister = Persister(self._cluster, self._config, self._clock, self._flush_queue.flush)
            self._share_persister.start()
        return self._share_persister

    @property
    def share_partitions(self) -> SharePartitions:
        """The records that members of share groups have acquired."""
        if self._share_partitions is None:
            from minibroker.coordinator.share_partition.share_partitions import SharePartitions  # noqa: PLC0415  a start does not need it

            self._share_partitions = SharePartitions(self._cluster, self._config, self._clock, self.share_persister)
            self._share_partitions.start()
            self.groups.on_share_member_gone.append(self._share_partitions.end_sessions)
        return self._share_partitions

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of all transactional ids."""
        return self._transactions or self._start_transactions()

    def _start_transactions(self, *, ends_orphans: bool = False) -> TransactionCoordinator:
        from minibroker.coordinator.transaction.coordinator import TransactionCoordinator  # noqa: PLC0415  a start does not need it

        self._transactions = TransactionCoordinator(self._cluster, self._config, self._clock, self._flush_queue.flush)
        self._transactions.start(ends_orphans=ends_orphans)
        return self._transactions

    @property
    def started_transactions(self) -> TransactionCoordinator | None:
        """The coordinator of transactions, if it was needed."""
        return self._transactions

    def start(self) -> None:
        """Continue after a restart: complete decided transactions, time out the others, expire offsets."""
        if TRANSACTION_STATE_TOPIC in self._cluster.topics or self._is_a_transaction_open():
            self._start_transactions(ends_orphans=True)
        if CONSUMER_OFFSETS_TOPIC in self._cluster.topics:
            _ = self.groups

    def take_over(self, topics: Container[str]) -> None:
        """Start the coordinators of the internal topics in `topics`, so that clients that know this broker need no new look-up."""
        if CONSUMER_OFFSETS_TOPIC in topics:
            self.groups.ensure_topic()
        if TRANSACTION_STATE_TOPIC in topics:
            self.transactions.ensure_topic()
        if SHARE_GROUP_STATE_TOPIC in topics:
            self.share_persister.ensure_topic()

    def _is_a_transaction_open(self) -> bool:
        logs = (partition.online_log for topic in self._cluster.topics.values() for partition in topic.partitions)
        return any(log is not None and log.first_unstable_offset is not None for log in logs)

    def send_away(self) -> None:
        """Answer members that wait in a rebalance with NOT_COORDINATOR, because the broker is about to stop."""
        if self._groups is not None:
            self._groups.unload()

    def stop(self) -> None:
        """Stop all coordinators. They write nothing afterwards."""
        if self._transactions is not None:
            self._transactions.stop()
        if self._share_partitions is not None:
            self._share_partitions.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._share_persister is not None:
            self._share_persister.stop()


ANONYMOUS: Final = "User:ANONYMOUS"  #: the principal of a client that did not log in

#: protocol, as group.coordinator.rebalance.protocols has it -> the feature that the cluster must have finalized
_PROTOCOL_FEATURES: Final = {"consumer": GROUP_VERSION_FEATURE, "share": SHARE_VERSION_FEATURE, "streams": STREAMS_VERSION_FEATURE}


class ConnectionInfo:
    """Facts about a client's connection.

    ApiVersions writes the name and version of the client's software.
    """

    __slots__ = (
        "client_host", "client_port", "client_software_name", "client_software_version", "endings", "is_token_authenticated",
        "listener_name", "principal", "rights", "security_protocol", "throttle_ms", "timed",
    )  # fmt: skip

    timed: Any  #: the connection, of a broker with metrics (minibroker/metrics/meter.py); unset otherwise

    def __init__(self, listener_name: str, client_host: str, security_protocol: str = "PLAINTEXT", client_port: int = 0) -> None:
        self.listener_name = listener_name  #: the listener that the client connected to; Metadata returns its advertised address
        self.client_host = client_host
        self.client_port = client_port
        self.security_protocol = security_protocol  #: of the listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
        self.principal = ANONYMOUS  #: the client, `User:name`; written by TLS and SASL
        self.rights: Rights | None = None  #: operations that the authorizer allowed (dispatch/authorization/access.py)
        self.is_token_authenticated = False  #: whether the client logged in with a delegation token
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"
        self.throttle_ms = 0  #: how long to mute the client; quotas write it with an answer, and the connection resets it
        self.endings: dict[object, Callable[[], None]] | None = None  #: callbacks of `when_closed`

    def when_closed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the connection closes.

        Returns a function that cancels this; it may be called twice.
        """
        if self.endings is None:
            self.endings = {}
        endings, key = self.endings, object()
        endings[key] = callback

        def cancel() -> None:
            endings.pop(key, None)

        return cancel

    def closed(self) -> None:
        """Run the callbacks. The connection calls this when it closes."""
        for callback in list((self.endings or {}).values()):
            callback()


@mypyc_attr(native_class=False)  # `seen_from` copies it
class Services:
    """The services of a broker, created once; the context of each request refers to them."""

    __slots__ = (
        "acls", "audit", "authorizer", "background", "clock", "cluster", "config", "coordinators", "fetch_sessions", "flush_queue", "nodes",
        "purgatory", "quotas", "record_steps", "registry", "slices", "telemetry_offer", "tokens",
    )  # fmt: skip

    def __init__(self, *, config: BrokerConfig, cluster: Cluster, clock: Clock, background: Background, registry: Registry) -> None:
        self.config = config
        self.cluster = cluster
        self.nodes = Nodes(cluster.node)  #: the brokers that clients see; `own` is the one that has these services
        self.clock = clock
        self.background = background
        self.telemetry_offer = TelemetryOffer(cluster, config, clock, background)
        self.registry = self.telemetry_offer.apply(registry)
        self.purgatory = Purgatory(clock)
        self.slices = Slices(clock)
        self.record_steps = RecordSteps(background)
        self.fetch_sessions: Any = None  #: the FetchSessionCache (handlers/fetch/session.py), from the first Fetch on
        self.flush_queue = FlushQueue(clock, background)
        self.coordinators = Coordinators(cluster, config, clock, self.flush_queue)
        self.quotas: Quotas | None = None  #: None while no quota is set
        self.audit: AuditLog | None = None  #: of the authorizer
        self.acls: StoredAcls | None = None  #: the access control entries; None: there is no authorizer
        self.authorizer: Authorizer | None = None  #: None: every client may do everything
        self.tokens: StoredTokens | None = None  #: the delegation tokens; None: no delegation.token.secret.key is set
        if "delegation.token.secret.key" in config.unknown:
            from minibroker.cluster.metadata.delegation_tokens import open_tokens  # noqa: PLC0415  most brokers have no tokens

            self.tokens = open_tokens(config, cluster.metadata, clock)
        self.follow_quotas()
        if config.authorizer_class_name:
            from minibroker.cluster.metadata.acls import StoredAcls  # noqa: PLC0415  most brokers have no authorizer
            from minibroker.security.authorizer import Authorizer  # noqa: PLC0415  likewise

            authorizer = Authorizer(config.super_users, allow_everyone_if_no_acl=config.allow_everyone_if_no_acl_found)
            self.authorize(StoredAcls(cluster.image.kept.acls.values(), cluster.write_quotas_and_credentials, authorizer))

    @property
    def telemetry(self) -> Telemetry | None:
        """What clients push about themselves; None if the broker does not offer that."""
        return self.telemetry_offer.telemetry

    def authorize(self, acls: StoredAcls) -> None:
        """Check every request with the authorizer of these access control entries.

        Call it before the first request.
        """
        from minibroker.security.audit import AuditLog  # noqa: PLC0415  a broker without an authorizer does not need it

        self.acls, self.authorizer = acls, acls.authorizer
        self.audit = AuditLog(self.clock)
        self.coordinators.is_restricted = True

    def check_group_protocol(self, protocol: str) -> None:
        """Check that groups of a protocol ("consumer", "streams", "share") are served.

        No property of the broker forbids share groups.

        Raises:
            UnsupportedVersion: The cluster has not finalized the protocol's feature, or group.coordinator.rebalance.protocols lacks it.
        """
        is_allowed = protocol == "share" or protocol in self.config.group_coordinator_rebalance_protocols
        if not is_allowed or not self.cluster.feature_level(_PROTOCOL_FEATURES[protocol]):
            raise UnsupportedVersion

    def seen_from(self, nodes: Nodes) -> Services:
        """Return the services of another broker of a simulated cluster.

        It has its own configs, sessions and quotas, and shares the rest.
        """
        other = copy(self)
        other.nodes = nodes
        other.config = self.cluster.configs.of_broker(nodes.own.node_id)
        other.fetch_sessions = None
        other.quotas = None
        other.follow_quotas()
        return other

    def follow_quotas(self) -> None:
        """Enforce the present quotas, and follow later changes."""
        self.cluster.on_quotas_changed.append(self._take_quotas)
        self._take_quotas(self.cluster.image.kept.quotas.values())

    def _take_quotas(self, records: Iterable[ClientQuotaRecord]) -> None:
        """Apply quotas that were set or removed."""
        if not self.cluster.image.kept.quotas:
            self.quotas = None
            return
        if self.quotas is None:
            from minibroker.dispatch.quotas import Quotas  # noqa: PLC0415  a broker without quotas does not need it

            self.quotas = Quotas(self.config, self.clock)
        self.quotas.update(records)


class RequestContext:
    """The second argument of a handler: header fields, the connection and the broker's services."""

    __slots__ = (
        "api_version", "broker", "client_id", "cluster", "connection", "correlation_id", "first_step", "request_size", "throttle_ms",
    )  # fmt: skip

    first_step: tuple[float, float, float, int]  #: times of a request that is answered later, of a broker with metrics; unset otherwise

    def __init__(  # noqa: PLR0917  one for each part of a request; the dispatcher creates it
        self,
        broker: Services,
        connection: ConnectionInfo,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_size: int = 0,
    ) -> None:
        self.broker = broker  #: the services of the broker that the request was sent to
        self.cluster = broker.cluster
        self.connection = connection
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_size = request_size  #: bytes of the frame, without its size
        self.throttle_ms = 0  #: how long to mute the client, if the handler found it above a quota

    def endpoints(self, schema: Any, node_ids: Iterable[int]) -> list[Any]:
        """Return the `schema.NodeEndpoint` of each known broker, for an answer that names leaders of partitions (KIP-951)."""
        listener = self.connection.listener_name
        found = [node for node in map(self.broker.nodes.find, sorted(set(node_ids))) if node is not None]
        addresses = [(node, node.advertised(listener)) for node in found]
        return [schema.NodeEndpoint(node_id=node.node_id, host=host, port=port, rack=node.rack) for node, (host, port) in addresses]

    def charge_mutations(self, *, is_strict: bool) -> Charge:
        """Return a function that counts partitions which this client creates or deletes.

        If strict, it raises ThrottlingQuotaExceeded.
        """
        return free if self.broker.quotas is None else self.broker.quotas.charge_mutations(self, is_strict=is_strict)
