"""Client quotas, enforced (KIP-13, KIP-124, KIP-599): who does more than it may is told so, and its connection is not read for that long.

    producer_byte_rate         bytes of Produce requests, a second
    consumer_byte_rate         bytes of Fetch responses, a second; the answer that would be too much goes without records. Of ShareFetch
                               too, but there the records go: Apache Kafka holds them back, acquired as they are
    request_percentage         time spent on requests, in hundredths of one processor; held for one window at the most
    controller_mutation_rate   partitions created and deleted, a second; THROTTLING_QUOTA_EXCEEDED where the request's version knows it
    connection_creation_rate   of an address, a second: one too many is not served, and closed when the rate is the quota again (KIP-612)

Every answer goes at once, with `throttle_time_ms`; then the connection is muted for that time (ClientQuotaManager,
ControllerMutationQuotaManager of Apache Kafka 4.3.1). Of all quotas that fit a client the most specific one holds:

    user and client-id, user and any client-id, user, any user and client-id, any user and any client-id, any user,
    client-id, any client-id

A quota of a user without a client-id holds for all connections of that user together, one of any client-id for each by itself. There is no
authentication yet: everybody is the user ANONYMOUS. A client without a client_id, or with an empty one, is of no client-id.

There is a `Quotas` only while there is a quota: without one, a request pays for one look at None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

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
    from minibroker.dispatch.context import RequestContext

ANONYMOUS: Final = "ANONYMOUS"  #: KafkaPrincipal.ANONYMOUS: whoever did not authenticate
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


class QuotaTable:
    """The quotas of one key by entity, and which of them holds for a client."""

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
        """Who shares the quota that holds for a client, and the quota; None when there is none."""
        if client not in self._found:
            if len(self._found) >= METERS_MAX:
                self._found.clear()
            self._found[client] = self._find(client[0], client[1] or None)
        return self._found[client]

    def of_address(self, host: str) -> float | None:
        """The quota of an address, else that of addresses without one."""
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
    """Of one broker, from its first quota to its last."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window_ms = config.quota_window_size_seconds * 1000
        self._window = Window(config.quota_window_num, window_ms)
        self._mutation_window = Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        self._limits = {key: QuotaTable() for key in ENFORCED}
        self.rates: dict[str, Meters[Rate]] = {key: Meters(Rate) for key in ENFORCED}  #: what clients did lately
        self.buckets: Meters[TokenBucket] = Meters(TokenBucket)

    def update(self, records: Iterable[ClientQuotaRecord]) -> None:
        """Take quotas that were set or removed. What clients did lately still counts."""
        for record in records:
            if record.key in self._limits:
                entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
                self._limits[record.key].set(entity, None if record.remove else record.value)

    # -- called by the dispatcher ---------------------------------------------------------------------------------

    def hold(self, api_key: int, ctx: RequestContext, response: Any, spent_ns: int) -> Any:
        """Count a request that is answered now; its answer, which says how long the client is held when it is.

        What the handler found too much (Fetch, changes of topics) is in `ctx.throttle_ms` already.
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

    def count_time(self, ctx: RequestContext, spent_ns: int) -> None:
        """Time that was spent on a request that is not answered yet."""
        found = self._limits[REQUEST_TIME].of((ANONYMOUS, ctx.client_id))
        if found is not None:
            self._rate(REQUEST_TIME, found[0]).record(spent_ns * _PERCENT_OF_NS, self._clock.now_ms())

    def connection_throttle_ms(self, host: str) -> int:
        """Count a new connection of an address: 0 where it may be; else how long until the next one, for one window at the most."""
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

    def fetch_bytes_max(self, ctx: RequestContext, max_bytes: int) -> int:
        """How much an answer may hold at the most, so that a client which fetched nothing lately is not held for it."""
        found = self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id))
        if found is None:
            return max_bytes
        return int(min(max_bytes, found[1] * (self._window.total_ms - self._window.window_ms) / 1000))

    def limits_fetches_of(self, ctx: RequestContext) -> bool:
        """Whether the size of a client's answers counts."""
        return self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id)) is not None

    def is_too_much_to_fetch(self, ctx: RequestContext, size_of: Callable[[], int]) -> bool:
        """Whether an answer of that size must go without its records; else it is counted. `size_of` is asked where there is a quota."""
        found = self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id))
        if found is None:
            return False
        size = size_of()
        ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size)
        if ctx.throttle_ms:
            self._rate(CONSUMER_BYTES, found[0]).record(-size, self._clock.now_ms())
        return ctx.throttle_ms > 0

    def count_fetched(self, ctx: RequestContext, size_of: Callable[[], int]) -> None:
        """Count an answer that goes with its records, whatever the quota: of records that were acquired none may be held back."""
        if self._limits[CONSUMER_BYTES].of((ANONYMOUS, ctx.client_id)) is not None:
            ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size_of())

    @staticmethod
    def size_of(schema: ModuleType, version: int, response: Any) -> int:
        """Return the bytes of an answer with its size, as they count; records are not copied for it."""
        return _SIZE_OF_FRAME + sum(map(len, encoder(schema.Response, version, version >= schema.FLEXIBLE_SINCE)(response)))

    def charge_mutations(self, ctx: RequestContext, *, is_strict: bool) -> Charge:
        """What counts partitions that are about to be created or deleted.

        Strict: ThrottlingQuotaExceeded while the client has to wait, else it may do as much as it likes at once. Otherwise never, but
        it is held behind what was too much.
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

    def _count(self, key: str, ctx: RequestContext, value: float) -> int:
        """Record what a client did; how long it is to be held."""
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
