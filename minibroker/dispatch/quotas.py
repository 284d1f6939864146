"""Enforce client quotas (KIP-13, KIP-124, KIP-599): mute the connection of a client that exceeds its quota.

    producer_byte_rate         bytes of Produce requests, a second
    consumer_byte_rate         bytes of Fetch responses, a second; an answer above the quota has no records. ShareFetch counts as well, but
                               its records are sent: Apache Kafka withholds them although they are acquired
    request_percentage         time spent on requests, in hundredths of one processor; a client is muted for one window at most
    controller_mutation_rate   partitions created and deleted, a second; THROTTLING_QUOTA_EXCEEDED where the request's version knows it
    connection_creation_rate   of an address, a second; a connection above the quota is not served, and is closed when the rate is the
                               quota again (KIP-612)

Every answer is sent at once, with `throttle_time_ms`. The connection is then muted for that time (ClientQuotaManager,
ControllerMutationQuotaManager of Apache Kafka 4.3.1). Of all quotas that match a client the most specific one applies:

    user and client-id, user and any client-id, user, any user and client-id, any user and any client-id, any user,
    client-id, any client-id

All connections of a user share a quota that names the user alone. A quota of any client-id applies to each client-id separately. There is
no authentication yet, so every client is the user ANONYMOUS. An empty client_id counts as none.

A `Quotas` exists only while a quota is set. Without one, a request costs one comparison with None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

from minibroker.cluster.cluster import Charge
from minibroker.cluster.metadata.client_quotas import CLIENT_ID, IP, USER
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.delayed import NO_RESPONSE
from minibroker.dispatch.rates import METERS_MAX, Client, Meters, Rate, TokenBucket, Window
from minibroker.errors import ThrottlingQuotaExceeded
from minibroker.schemas import k00_produce, k27_write_txn_markers
from minibroker.schemas.internal.setting_records import ClientQuotaRecord
from minibroker.wire.compiled import encoder
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.clock import Clock

ANONYMOUS: Final = "ANONYMOUS"  #: KafkaPrincipal.ANONYMOUS: a client that did not authenticate
PRODUCER_BYTES: Final = "producer_byte_rate"
CONSUMER_BYTES: Final = "consumer_byte_rate"
REQUEST_TIME: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"
ENFORCED: Final = (PRODUCER_BYTES, CONSUMER_BYTES, REQUEST_TIME, MUTATIONS, CONNECTIONS)

_EXEMPT: Final = frozenset({k27_write_txn_markers.API_KEY})  #: requests between brokers
_PERCENT_OF_NS: Final = 100 / 1e9
_SIZE_OF_FRAME: Final = 4

Entity = frozenset[tuple[str, str | None]]


class MutedConnection(Protocol):
    """The throttle time of a connection, which `hold` writes."""

    throttle_ms: int


class CountedRequest(Protocol):
    """What quotas read and write of a RequestContext."""

    client_id: str | None
    request_size: int
    throttle_ms: int

    @property
    def connection(self) -> MutedConnection:
        """The connection of the client."""


class QuotaTable:
    """The quotas of one key by entity; finds the one that applies to a client."""

    def __init__(self) -> None:
        self._by_entity: dict[Entity, float] = {}
        self._found: dict[Client, tuple[Client, float] | None] = {}

    def set(self, entity: Entity, value: float | None) -> None:
        """Set the quota of an entity, or remove it."""
        self._found.clear()
        if value is None:
            self._by_entity.pop(entity, None)
        else:
            self._by_entity[entity] = value

    def of(self, client: Client) -> tuple[Client, float] | None:
        """Return the clients that share the quota which applies to `client`, and the quota; None if there is none."""
        if client not in self._found:
            if len(self._found) >= METERS_MAX:
                self._found.clear()
            self._found[client] = self._find(client[0], client[1] or None)
        return self._found[client]

    def of_address(self, host: str) -> float | None:
        """Return the quota of an address, else the default of all addresses."""
        value = self._by_entity.get(frozenset({(IP, host)}))
        return self._by_entity.get(frozenset({(IP, None)})) if value is None else value

    def _find(self, user: str, client_id: str | None) -> tuple[Client, float] | None:
        both, alone, identified = (user, client_id), (user, None), ("", client_id)
        choices: list[tuple[Client, Mapping[str, str | None]]] = [
            (both, {USER: user, CLIENT_ID: client_id}),
            (both, {USER: user, CLIENT_ID: None}),
            (alone, {USER: user}),
            (both, {USER: None, CLIENT_ID: client_id}),
            (both, {USER: None, CLIENT_ID: None}),
            (alone, {USER: None}),
            (identified, {CLIENT_ID: client_id}),
            (identified, {CLIENT_ID: None}),
        ]
        for sharing, entity in choices:
            if client_id is None and CLIENT_ID in entity:
                continue
            value = self._by_entity.get(frozenset(entity.items()))
            if value is not None:
                return sharing, value
        return None


class Quotas:
    """The quotas of one broker, and what its clients did recently."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window_ms = config.quota_window_size_seconds * 1000
        self._window = Window(config.quota_window_num, window_ms)
        self._mutation_window = Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        self._limits = {key: QuotaTable() for key in ENFORCED}
        self.rates: dict[str, Meters[Rate]] = {key: Meters(Rate) for key in ENFORCED}  #: what clients did recently
        self.buckets: Meters[TokenBucket] = Meters(TokenBucket)

    def update(self, records: Iterable[ClientQuotaRecord]) -> None:
        """Apply quotas that were set or removed. What clients did recently still counts."""
        for record in records:
            if record.key in self._limits:
                entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
                self._limits[record.key].set(entity, None if record.remove else record.value)

    # -- called by the dispatcher ---------------------------------------------------------------------------------

    def hold(self, api_key: int, ctx: CountedRequest, response: Any, spent_ns: int) -> Any:
        """Count a request that is answered now. Returns its answer, with the throttle time if the client is muted.

        The handler has already written its own throttle time (Fetch, changes of topics) to `ctx.throttle_ms`.
        """
        throttle_ms = ctx.throttle_ms
        if api_key == k00_produce.API_KEY:
            throttle_ms = self._count(PRODUCER_BYTES, ctx, ctx.request_size)
        if api_key not in _EXEMPT and response is not NO_RESPONSE:
            most_ms = self._window.window_ms
            throttle_ms = max(throttle_ms, min(self._count(REQUEST_TIME, ctx, spent_ns * _PERCENT_OF_NS), most_ms))
        if not throttle_ms:
            return response
        ctx.connection.throttle_ms = max(ctx.connection.throttle_ms, throttle_ms)
        return replace(response, throttle_time_ms=throttle_ms) if hasattr(response, "throttle_time_ms") else response

    def count_time(self, ctx: CountedRequest, spent_ns: int) -> None:
        """Count time that was spent on a request that is not answered yet."""
        found = self._limits[REQUEST_TIME].of((ANONYMOUS, ctx.client_id))
        if found is not None:
            self._rate(REQUEST_TIME, found[0]).record(spent_ns * _PERCENT_OF_NS, self._clock.now_ms())

    def connection_throttle_ms(self, host: str) -> int:
        """Count a new connection of an address. Returns 0 if it is allowed, else the wait for the next one: one window at most."""
        quota = self._limits[CONNECTIONS].of_address(host)
        if quota is None:
            return 0
        now_ms = self._clock.now_ms()
        rate = self._rate(CONNECTIONS, (host, None))
        rate.record(1, now_ms)
        throttle_ms = min(rate.throttle_ms(quota, now_ms), self._window.window_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return throttle_ms

    # -- called by handlers ---------------------------------------------------------------------------------------

    def fetch_bytes_max(self, ctx: CountedRequest, max_bytes: int) -> int:
        """Return the largest answer for which a client that fetched nothing recently is not muted."""
        found = self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id))
        if found is None:
            return max_bytes
        return int(min(max_bytes, found[1] * (self._window.total_ms - self._window.window_ms) / 1000))

    def limits_fetches_of(self, ctx: CountedRequest) -> bool:
        """Whether a quota applies to the size of the client's answers."""
        return self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id)) is not None

    def is_too_much_to_fetch(self, ctx: CountedRequest, size_of: Callable[[], int]) -> bool:
        """Whether an answer must be sent without its records; else it is counted. `size_of` is called only if there is a quota."""
        found = self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id))
        if found is None:
            return False
        size = size_of()
        ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size)
        if ctx.throttle_ms:
            self._rate(CONSUMER_BYTES, found[0]).record(-size, self._clock.now_ms())
        return ctx.throttle_ms > 0

    def count_fetched(self, ctx: CountedRequest, size_of: Callable[[], int]) -> None:
        """Count an answer that is sent with its records whatever the quota: acquired records must not be withheld."""
        if self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id)) is not None:
            ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size_of())

    @staticmethod
    def size_of(schema: ModuleType, version: int, response: Any) -> int:
        """Return the bytes of an answer with its size field, as quotas count them. Records are not copied."""
        return _SIZE_OF_FRAME + sum(map(len, encoder(schema.Response, version, version >= schema.FLEXIBLE_SINCE)(response)))

    def charge_mutations(self, ctx: CountedRequest, *, is_strict: bool) -> Charge:
        """Return what counts partitions that are about to be created or deleted.

        If strict, it raises ThrottlingQuotaExceeded while the client has to wait; else one request may change any number. If not strict,
        it never raises, but the client is muted after a request above the quota.
        """

        def charge(partition_count: int) -> None:
            found = self._limits[MUTATIONS].of((ANONYMOUS, ctx.client_id))
            if found is None:
                return
            client, quota = found
            now_ms = self._clock.now_ms()
            bucket = self.buckets.of(client, self._mutation_window, now_ms)
            if is_strict and (throttle_ms := bucket.throttle_ms(quota, now_ms)):
                ctx.throttle_ms = throttle_ms
                raise ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
            bucket.spend(partition_count, quota, now_ms)
            if not is_strict:
                ctx.throttle_ms = bucket.throttle_ms(quota, now_ms)

        return charge

    # -- inside ---------------------------------------------------------------------------------------------------

    def _count(self, key: str, ctx: CountedRequest, value: float) -> int:
        """Record what a client did. Returns how long to mute it."""
        found = self._limits[key].of((ANONYMOUS, ctx.client_id))
        if found is None:
            return 0
        client, quota = found
        now_ms = self._clock.now_ms()
        rate = self._rate(key, client)
        rate.record(value, now_ms)
        return rate.throttle_ms(quota, now_ms)

    def _rate(self, key: str, client: Client) -> Rate:
        return self.rates[key].of(client, self._window, self._clock.now_ms())
