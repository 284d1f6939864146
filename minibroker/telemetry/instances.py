"""`Instances`: what the protocol keeps of each client instance: what it is asked for, and when it asked and pushed last.

Errors, their order and their messages are those of Apache Kafka 4.3.1 (ClientMetricsManager, ClientMetricsInstance). An instance is
forgotten when the connection closes that was the last to create one, and when it has been silent for a minute or for three intervals.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.errors import (
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from minibroker.records.compression import Compression
from minibroker.telemetry.subscriptions import InstanceSubscription

INSTANCES_MAX: Final = 4_096  #: Kafka keeps 16,384. One that was dropped is created again by its next request.
EXPIRY_MS: Final = 60_000
_RETRIED_AT_ONCE: Final = (UnknownSubscriptionId, UnsupportedCompressionType)


class Push(NamedTuple):
    """A request of PushTelemetry."""

    instance_id: UUID
    subscription_id: int
    compression_type: int
    metrics: bytes
    is_last: bool


class Instance:
    """One client instance."""

    __slots__ = (
        "attributes", "expires_ms", "instance_id", "is_terminating", "last_error", "last_get_ms", "last_push_ms", "subscription", "version",
    )  # fmt: skip

    def __init__(self, instance_id: UUID, attributes: Mapping[str, str], subscription: InstanceSubscription, version: int) -> None:
        self.instance_id = instance_id
        self.attributes = attributes  #: what selectors of subscriptions are compared with
        self.subscription = subscription
        self.version = version  #: of the subscriptions
        self.expires_ms = 0
        self.last_get_ms = 0
        self.last_push_ms = 0
        self.is_terminating = False  #: its last push said that it was the last one
        self.last_error: type[KafkaError] | None = None

    def check_get(self, requested_id: UUID, now_ms: int) -> None:
        """Note that the client asked for its subscription.

        Raises:
            ThrottlingQuotaExceeded: it is too early, and the last push had no error after which a client asks again.
        """
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.subscription.interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in _RETRIED_AT_ONCE:
            raise ThrottlingQuotaExceeded(f"Request from the client [{requested_id}] arrived before the next push interval time")
        self.last_error = None

    def check_push(self, push: Push, max_bytes: int, now_ms: int) -> None:
        """Check a push, in Kafka's order.

        Raises:
            InvalidRequest: the push before was the last one.
            ThrottlingQuotaExceeded: it is too early. The first push after a request for the subscription may come at any time.
            UnknownSubscriptionId: the client must ask for its subscription.
            UnsupportedCompressionType: no codec has this number.
            TelemetryTooLarge: the payload is larger than `max_bytes`.
        """
        try:
            self._check_push(push, max_bytes, now_ms)
        except KafkaError as error:
            self.last_error = type(error)
            raise
        finally:
            self.is_terminating = push.is_last

    def _check_push(self, push: Push, max_bytes: int, now_ms: int) -> None:
        client = self.instance_id
        if self.is_terminating:
            raise InvalidRequest(
                # Kafka's spelling
                f"Client [{client}] sent the previous request with state terminating to TRUE, can not acceptany requests after that"
            )
        if self.last_get_ms > self.last_push_ms or now_ms - self.last_push_ms >= self.subscription.interval_ms:
            self.last_push_ms = now_ms
        elif not push.is_last:
            raise ThrottlingQuotaExceeded(f"Request from the client [{client}] arrived before the next push interval time")
        if push.subscription_id != self.subscription.subscription_id:
            raise UnknownSubscriptionId(f"Unknown client subscription id for the client [{client}]")
        try:
            Compression.of(push.compression_type)
        except UnsupportedCompressionType:
            raise UnsupportedCompressionType(
                f"Unknown compression type [{push.compression_type}] is received in telemetry request from [{client}]"
            ) from None
        if len(push.metrics) > max_bytes:
            raise TelemetryTooLarge(f"Telemetry request from [{client}] is larger than the maximum allowed size [{max_bytes}]")


class Instances:
    """The client instances of a broker."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, Instance] = OrderedDict()  #: the one that was silent for longest first
        self._created_by: dict[object, UUID] = {}  #: connection -> the instance that it created last

    def __len__(self) -> int:
        return len(self._known)

    def find(self, instance_id: UUID, now_ms: int) -> Instance | None:
        """Return a known instance, unless it was silent for too long."""
        instance = self._known.get(instance_id)
        return instance if instance is not None and instance.expires_ms > now_ms else None

    def add(self, instance: Instance, connection: object) -> bool:
        """Add an instance, or replace the one with its id. Returns whether it is the first that the connection creates."""
        self._known[instance.instance_id] = instance
        if len(self._known) > INSTANCES_MAX:
            self._known.popitem(last=False)
        is_first = connection not in self._created_by
        self._created_by[connection] = instance.instance_id
        return is_first

    def used(self, instance: Instance, now_ms: int) -> None:
        """Keep an instance for another while."""
        instance.expires_ms = now_ms + max(EXPIRY_MS, 3 * instance.subscription.interval_ms)
        self._known.move_to_end(instance.instance_id)

    def closed(self, connection: object) -> None:
        """Forget the instance that a connection created last."""
        instance_id = self._created_by.pop(connection, None)
        if instance_id is not None:
            self._known.pop(instance_id, None)

    def expire(self, now_ms: int) -> None:
        """Forget all that were silent for too long."""
        for instance_id in [each.instance_id for each in self._known.values() if each.expires_ms <= now_ms]:
            del self._known[instance_id]
