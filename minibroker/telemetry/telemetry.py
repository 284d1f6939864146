"""`Telemetry`: what a broker does for clients that push their own metrics (KIP-714)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, Protocol
from uuid import UUID, uuid4

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.metadata.metadata_image import CLIENT_METRICS_RESOURCE
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.request_limits import TELEMETRY_PUSHES_MAX
from minibroker.errors import InvalidRecord, InvalidRequest, KafkaError, ThrottlingQuotaExceeded, UnknownServerError
from minibroker.records.compression import Compression
from minibroker.telemetry.clients import CLIENT_ID_LETTERS_MAX, Caller, ClientInstance, Clients
from minibroker.telemetry.instances import Instance, Instances, Push
from minibroker.telemetry.payload import EMPTY, Payload, decoded
from minibroker.telemetry.subscriptions import Subscriptions

NO_ID: Final = UUID(int=0)
_RESERVED: Final = frozenset({NO_ID, UUID(int=1)})  #: Kafka's Uuid.RESERVED
_SWEEP_MS: Final = 60_000


class Connection(Caller, Protocol):
    """A caller that may be gone later."""

    def when_closed(self, callback: Callable[[], None], /) -> Callable[[], None]:
        """Call `callback` when the connection closes."""


class Telemetry:
    """Subscriptions, client instances and their metrics. All brokers of a simulated cluster share it."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, background: Background) -> None:
        self.max_bytes = config.telemetry_max_bytes
        self._cluster = cluster
        self._default_interval_ms = config.minibroker_telemetry_interval_ms
        self._clock = clock
        self._background = background
        self._pending_count = 0  #: pushes that are being decoded
        self._instances = Instances()
        self._clients = Clients()
        self._version = -1  #: of the configs in `_subscriptions`
        self._subscriptions = Subscriptions({}, 0)
        self._next_sweep_ms = 0

    def clients(self) -> list[ClientInstance]:
        """Return all client instances that asked or pushed, also those that went in the last minutes; the first that was seen is first."""
        self._sweep()
        return self._clients.all()

    def subscribe(self, requested_id: UUID, client_id: str | None, connection: Connection) -> Instance:
        """Return a client instance with its subscription. An id of zero gets a new one.

        Raises:
            ThrottlingQuotaExceeded: the client asks too early.
        """
        instance_id = self._new_id() if requested_id == NO_ID else requested_id
        instance = self._instance(instance_id, client_id, connection)
        instance.check_get(requested_id, self._clock.now_ms())
        self._seen(instance, client_id, connection)
        return instance

    def push(self, push: Push, client_id: str | None, connection: Connection, done: Callable[[KafkaError | None], None]) -> None:
        """Check a push, keep its metrics, and call `done` with the error of its payload, if any.

        The payload is decoded in a worker thread, and kept also if the client closes its connection meanwhile, as clients do at their end.

        Raises:
            InvalidRequest: the instance id is reserved.
            ThrottlingQuotaExceeded: too many pushes wait to be decoded.
            KafkaError: as `Instance.check_push`.
        """
        if push.instance_id in _RESERVED:
            raise InvalidRequest(f"Invalid request from the client [{push.instance_id}], invalid client instance id")
        instance = self._instance(push.instance_id, client_id, connection)
        instance.check_push(push, self.max_bytes, self._clock.now_ms())
        if self._pending_count >= TELEMETRY_PUSHES_MAX:
            raise ThrottlingQuotaExceeded("too many pushes wait to be decoded")
        self._pending_count += 1
        client = self._seen(instance, client_id, connection)

        def finished(error: KafkaError | None) -> None:
            self._pending_count -= 1
            instance.last_error = None if error is None else InvalidRecord
            done(error)

        def is_decoded(outcome: Payload | BaseException) -> None:
            if isinstance(outcome, BaseException):
                finished(outcome if isinstance(outcome, InvalidRecord) else UnknownServerError())
            else:
                self._go_on(self._clients.pushed(client, outcome, self._clock.now_ms(), is_last=push.is_last), partial(finished, None))

        if push.metrics:
            decode = partial(decoded, Compression.of(push.compression_type), push.metrics, self.max_bytes)
            self._background.submit(decode, is_decoded)
        else:
            is_decoded(EMPTY)

    def _go_on(self, steps: Iterator[None], finished: Callable[[], None]) -> None:
        """Run steps, one in each turn of the loop."""
        for _ in steps:
            self._clock.call_later_ms(0, partial(self._go_on, steps, finished))
            return
        finished()

    def _new_id(self) -> UUID:
        while True:
            instance_id = uuid4()
            if self._instances.find(instance_id, self._clock.now_ms()) is None:
                return instance_id

    def _instance(self, instance_id: UUID, client_id: str | None, connection: Connection) -> Instance:
        """Return an instance, with the present subscriptions."""
        self._follow_configs()
        self._sweep()
        now_ms = self._clock.now_ms()
        instance = self._instances.find(instance_id, now_ms)
        if instance is None or instance.version != self._version:
            attributes = _attributes(instance_id, client_id, connection) if instance is None else instance.attributes
            instance = Instance(instance_id, attributes, self._subscriptions.of(instance_id, attributes), self._version)
            if self._instances.add(instance, connection):
                connection.when_closed(partial(self._closed, connection))
        self._instances.used(instance, now_ms)
        return instance

    def _follow_configs(self) -> None:
        version = self._cluster.configs.client_metrics_version
        if version == self._version:
            return
        self._version = version
        configs = self._cluster.image.configs
        own = {name: values for (kind, name), values in configs.items() if kind == CLIENT_METRICS_RESOURCE and values}
        self._subscriptions = Subscriptions(own, self._default_interval_ms)

    def _seen(self, instance: Instance, client_id: str | None, connection: Connection) -> ClientInstance:
        shown_id = None if client_id is None else client_id[:CLIENT_ID_LETTERS_MAX]
        return self._clients.seen(instance.instance_id, shown_id, connection, instance.subscription, self._clock.now_ms())

    def _closed(self, connection: Connection) -> None:
        self._instances.closed(connection)
        self._clients.disconnected(connection.client_host, connection.client_port)

    def _sweep(self) -> None:
        """Forget what was silent for long, now and then."""
        now_ms = self._clock.now_ms()
        if now_ms >= self._next_sweep_ms:
            self._next_sweep_ms = now_ms + _SWEEP_MS
            self._instances.expire(now_ms)
            self._clients.forget_silent(now_ms)


def _attributes(instance_id: UUID, client_id: str | None, connection: Connection) -> dict[str, str]:
    """Return what selectors are compared with, by Kafka's names."""
    found = {
        "client_instance_id": urlsafe_b64encode(instance_id.bytes).decode().rstrip("="),
        "client_software_name": connection.client_software_name,
        "client_software_version": connection.client_software_version,
        "client_source_address": connection.client_host,
        "client_source_port": str(connection.client_port),
    }
    return found if client_id is None else found | {"client_id": client_id[:CLIENT_ID_LETTERS_MAX]}
