"""Enforce client quotas (KIP-13, KIP-124, KIP-599): mute the connection of a client that exceeds its quota.

    producer_byte_rate         bytes of Produce requests, a second
    consumer_byte_rate         bytes of Fetch responses, a second; an answer above the quota has no records. ShareFetch counts as well, but
                               its records are sent: Apache Kafka withholds them although they are acquired
    request_percentage         time spent on requests, in hundredths of one processor; a client is muted for one window at most
    controller_mutation_rate   partitions created and deleted, a second; THROTTLING_QUOTA_EXCEEDED if the request's version has this error
    connection_creation_rate   connections of an address, a second; a connection above the quota is not served, and is closed when the rate
                               is down to the quota (KIP-612)

Every answer is sent at once, with `throttle_time_ms`. The connection is then muted for that time
(ClientQuotaManager, ControllerMutationQuotaManager of Apache Kafka 4.3.1). The most specific quota
that matches a client applies:

    user and client-id, user and any client-id, user, any user and client-id, any user and any client-id, any user,
    client-id, any client-id

All connections of a user share a quota that names only the user. A quota of any client-id applies
to each client-id separately. The user is the name of the connection's principal: ANONYMOUS without
a login, the distinguished name of a client certificate, the owner of a delegation token. An empty
client_id is treated as missing.

Two meters record the recent use of a client, and compute how long it must wait until its use is
within the quota:

Rate          for bytes and time (Rate over WindowedSum of Apache Kafka): the sum over `samples` windows, divided by their time. A single
              large request is served, and the wait after it lowers the rate to the quota: (rate - quota) / quota * window.
TokenBucket   for changes of topics (KIP-599): tokens are added at the quota's rate, up to those of all windows. A client
              without tokens must wait.

Times are milliseconds of the injected clock. If the clock goes back a little, it counts as stopped.
If it goes back by more than all windows, earlier samples are dropped, because they would count
until the clock reaches their time again.

A `Quotas` exists only while a quota is set. Without one, a request costs one comparison with None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import floor, isnan
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from minibroker.cluster.cluster import Charge
from minibroker.cluster.metadata.client_quotas import CLIENT_ID, IP, USER
from minibroker.config.broker_config import BrokerConfig
from minibroker.dispatch.delayed import NO_RESPONSE
from minibroker.errors import ThrottlingQuotaExceeded
from minibroker.schemas import k00_produce, k27_write_txn_markers
from minibroker.schemas.internal.setting_records import ClientQuotaRecord
from minibroker.wire.compiled import encoder
from minibroker.wire.schema import replace

if TYPE_CHECKING:
    from minibroker.clock import Clock

PRODUCER_BYTES: Final = "producer_byte_rate"
CONSUMER_BYTES: Final = "consumer_byte_rate"
REQUEST_TIME: Final = "request_percentage"
MUTATIONS: Final = "controller_mutation_rate"
CONNECTIONS: Final = "connection_creation_rate"
ENFORCED: Final = (PRODUCER_BYTES, CONSUMER_BYTES, REQUEST_TIME, MUTATIONS, CONNECTIONS)

_EXEMPT: Final = frozenset({k27_write_txn_markers.API_KEY})  #: requests between brokers
THROTTLE_MAX_MS: Final = 2**31 - 1  #: the largest throttle_time_ms: 25 days
METERS_MAX: Final = 1_000  #: of one quota; above this number the meters of inactive clients are dropped
_MS: Final = 1000.0
_HALF: Final = 0.5  #: rounded up, as Java does
_PERCENT_OF_NS: Final = 100 / 1e9
_SIZE_OF_FRAME: Final = 4
_USER_TYPE_SIZE: Final = len("User:")  #: principals of clients have no other type

Client = tuple[str, str | None]  #: user, client_id; or an address, None
Entity = frozenset[tuple[str, str | None]]


class MutedConnection(Protocol):
    """The principal of a connection, and its throttle time, which `hold` writes."""

    principal: str
    throttle_ms: int


class CountedRequest(Protocol):
    """The attributes of a RequestContext that quotas read and write."""

    client_id: str | None
    request_size: int
    throttle_ms: int

    @property
    def connection(self) -> MutedConnection:
        """The connection of the client."""


def _client(ctx: CountedRequest) -> Client:
    return ctx.connection.principal[_USER_TYPE_SIZE:], ctx.client_id


class Window:
    """`samples` windows of `window_ms` each: quota.window.num and quota.window.size.seconds."""

    __slots__ = ("samples", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples = samples
        self.window_ms = window_ms

    @property
    def total_ms(self) -> int:
        """The time after which an inactive client is forgotten."""
        return self.samples * self.window_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """The recent use of one client, in samples that start when a value is recorded."""

    __slots__ = ("_samples", "_window", "last_ms")

    def __init__(self, window: Window) -> None:
        self.last_ms = 0  #: when a value was last recorded
        self._window = window
        self._samples: list[_Sample] = []  #: oldest first

    def record(self, value: float, now_ms: int) -> None:
        """Add `value`; a negative value takes back an earlier one."""
        samples = self._samples
        if now_ms < self.last_ms - self._window.total_ms:
            samples.clear()
            self.last_ms = now_ms
        if not samples or now_ms - samples[-1].start_ms >= self._window.window_ms:
            samples.append(_Sample(now_ms))
        self.last_ms = samples[-1].last_ms = max(now_ms, self.last_ms)
        samples[-1].value += value

    def present(self, now_ms: int) -> float:
        """Return the present rate, a second."""
        self._forget(now_ms)
        return sum(sample.value for sample in self._samples) / (self._window_ms(now_ms) / _MS)

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must wait until its rate is down to the quota; 0 if it is not above it."""
        self._forget(now_ms)
        window_ms = self._window_ms(now_ms)
        rate = sum(sample.value for sample in self._samples) / (window_ms / _MS)
        return 0 if rate <= quota else _rounded_ms((rate - quota) / quota * window_ms)

    def _forget(self, now_ms: int) -> None:
        """Drop samples that are older than all windows."""
        self._samples = [sample for sample in self._samples if now_ms - sample.last_ms < self._window.total_ms]

    def _window_ms(self, now_ms: int) -> int:
        """Return the time that the rate is computed over: since the oldest sample, but at least all windows except the current one."""
        elapsed_ms = max(now_ms - self._samples[0].start_ms, 0) if self._samples else 0
        missing = self._window.samples - 1 - elapsed_ms // self._window.window_ms
        return max(elapsed_ms + max(missing, 0) * self._window.window_ms, 1)


class TokenBucket:
    """Tokens of one client, which starts with a full bucket."""

    __slots__ = ("_tokens", "_window", "last_ms")

    def __init__(self, window: Window) -> None:
        self.last_ms = 0
        self._window = window
        self._tokens: float | None = None  #: None: full

    def spend(self, tokens: float, quota: float, now_ms: int) -> None:
        """Take tokens; the number may become negative."""
        self._tokens = self._refilled(quota, now_ms) - tokens

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long until the number is no longer negative."""
        return _rounded_ms(-self._refilled(quota, now_ms) / quota * _MS)

    def _refilled(self, quota: float, now_ms: int) -> float:
        most = self._window.total_ms / _MS * quota
        passed_ms = max(now_ms - self.last_ms, 0)
        self.last_ms = now_ms
        self._tokens = most if self._tokens is None else min(most, self._tokens + quota * passed_ms / _MS)
        return self._tokens


Meter = TypeVar("Meter", Rate, TokenBucket)


class Meters(Generic[Meter]):
    """The meter of each client.

    The meter of a client that was inactive for all windows may be dropped.
    """

    def __init__(self, new: Callable[[Window], Meter]) -> None:
        self._new: Callable[[Window], Meter] = new
        self._by_client: dict[Client, Meter] = {}
        self._count_max = METERS_MAX  #: above this number inactive ones are dropped; then set to twice the remaining number

    def __len__(self) -> int:
        return len(self._by_client)

    def of(self, client: Client, window: Window, now_ms: int) -> Meter:
        """Return the client's meter, and create it at first use."""
        meter = self._by_client.get(client)
        if meter is None:
            if len(self._by_client) >= self._count_max:
                self._drop_inactive(window, now_ms)
            meter = self._by_client[client] = self._new(window)
        return meter

    def __iter__(self) -> Iterator[tuple[Client, Meter]]:
        return iter(list(self._by_client.items()))

    def _drop_inactive(self, window: Window, now_ms: int) -> None:
        self._by_client = {client: meter for client, meter in self._by_client.items() if abs(now_ms - meter.last_ms) < window.total_ms}
        self._count_max = max(METERS_MAX, 2 * len(self._by_client))


def _rounded_ms(wait_ms: float) -> int:
    """Round like Java's Math.round. The smallest quota results in the longest wait; NaN in 0."""
    return 0 if isnan(wait_ms) else floor(min(max(wait_ms, 0), THROTTLE_MAX_MS) + _HALF)


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
        """Return the key of the clients that share the quota of `client`, and the quota; None if no quota applies."""
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
    """The quotas of one broker, and the recent use of its clients."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        window_ms = config.quota_window_size_seconds * 1000
        self._window = Window(config.quota_window_num, window_ms)
        self._mutation_window = Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
        self._limits = {key: QuotaTable() for key in ENFORCED}
        self.rates: dict[str, Meters[Rate]] = {key: Meters(Rate) for key in ENFORCED}  #: the recent use of clients
        self.buckets: Meters[TokenBucket] = Meters(TokenBucket)

    def update(self, records: Iterable[ClientQuotaRecord]) -> None:
        """Apply quotas that were set or removed. The recent use of clients still counts."""
        for record in records:
            if record.key in self._limits:
                entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
                self._limits[record.key].set(entity, None if record.remove else record.value)

    def present(self, key: str) -> Iterator[tuple[Client, float, int]]:
        """Return, for a key of a rate, each client with its present rate and how long it must wait now, in milliseconds."""
        now_ms = self._clock.now_ms()
        for client, rate in self.rates[key]:
            found = self._limits[key].of(client)
            yield client, rate.present(now_ms), 0 if found is None else rate.throttle_ms(found[1], now_ms)

    # Called by the dispatcher

    def hold(self, api_key: int, ctx: CountedRequest, response: Any, spent_ns: int) -> Any:
        """Count a request that is answered now.

        Returns its answer, with the throttle time if the client is muted.

        The handler has already written its own throttle time (Fetch, changes of topics) to
        `ctx.throttle_ms`.
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
        found = self._limits[REQUEST_TIME].of(_client(ctx))
        if found is not None:
            self._rate(REQUEST_TIME, found[0]).record(spent_ns * _PERCENT_OF_NS, self._clock.now_ms())

    def connection_throttle_ms(self, host: str) -> int:
        """Count a new connection of an address.

        Returns 0 if it is allowed, else the wait until the next one: at most one window.
        """
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

    # Called by handlers

    def fetch_bytes_max(self, ctx: CountedRequest, max_bytes: int) -> int:
        """Return the largest answer for which a client that fetched nothing recently is not muted."""
        found = self._limits[CONSUMER_BYTES].of(_client(ctx))
        if found is None:
            return max_bytes
        return int(min(max_bytes, found[1] * (self._window.total_ms - self._window.window_ms) / 1000))

    def limits_fetches_of(self, ctx: CountedRequest) -> bool:
        """Whether a quota applies to the size of the client's answers."""
        return self._limits[CONSUMER_BYTES].of(_client(ctx)) is not None

    def is_too_much_to_fetch(self, ctx: CountedRequest, size_of: Callable[[], int]) -> bool:
        """Whether an answer must be sent without its records; otherwise it is counted.

        `size_of` is called only if a quota applies.
        """
        found = self._limits[CONSUMER_BYTES].of(_client(ctx))
        if found is None:
            return False
        size = size_of()
        ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size)
        if ctx.throttle_ms:
            self._rate(CONSUMER_BYTES, found[0]).record(-size, self._clock.now_ms())
        return ctx.throttle_ms > 0

    def count_fetched(self, ctx: CountedRequest, size_of: Callable[[], int]) -> None:
        """Count an answer that is sent with its records even above the quota, because acquired records must not be withheld."""
        if self._limits[CONSUMER_BYTES].of(_client(ctx)) is not None:
            ctx.throttle_ms = self._count(CONSUMER_BYTES, ctx, size_of())

    @staticmethod
    def size_of(schema: ModuleType, version: int, response: Any) -> int:
        """Return the bytes of an answer with its size field, as quotas count them.

        Records are not copied.
        """
        return _SIZE_OF_FRAME + sum(map(len, encoder(schema.Response, version, version >= schema.FLEXIBLE_SINCE)(response)))

    def charge_mutations(self, ctx: CountedRequest, *, is_strict: bool) -> Charge:
        """Return a function that counts partitions before they are created or deleted.

        If strict, it raises ThrottlingQuotaExceeded while the client has to wait. One request may
        still change any number. If not strict, it never raises, but the client is muted after a
        request above the quota.
        """

        def charge(partition_count: int) -> None:
            found = self._limits[MUTATIONS].of(_client(ctx))
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

    # Internal

    def _count(self, key: str, ctx: CountedRequest, value: float) -> int:
        """Record the use of a client. Returns how long to mute it."""
        found = self._limits[key].of(_client(ctx))
        if found is None:
            return 0
        client, quota = found
        now_ms = self._clock.now_ms()
        rate = self._rate(key, client)
        rate.record(value, now_ms)
        return rate.throttle_ms(quota, now_ms)

    def _rate(self, key: str, client: Client) -> Rate:
        return self.rates[key].of(client, self._window, self._clock.now_ms())
