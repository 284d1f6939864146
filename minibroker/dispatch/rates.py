"""Measure how much a client did recently, and how long it must wait until that is within its quota.

Rate          for bytes and time (Rate over WindowedSum of Apache Kafka): what was recorded over `samples` windows, a second. A single large
              request is served, and the wait after it lowers the rate to the quota: (rate - quota) / quota * window.
TokenBucket   for changes of topics (KIP-599): tokens are added at the quota's rate, up to those of all windows. A client
              without tokens must wait.

Times are milliseconds of the injected clock. If the clock goes back a little, it counts as stopped. If it goes back by more than all
windows, earlier samples are dropped: they would count until the clock reaches their time again.
"""

from __future__ import annotations

from collections.abc import Callable
from math import floor, isnan
from typing import Final, Generic, TypeVar

THROTTLE_MAX_MS: Final = 2**31 - 1  #: the largest throttle_time_ms: 25 days
METERS_MAX: Final = 1_000  #: of one quota; above this number those of silent clients are dropped
_MS: Final = 1000.0
_HALF: Final = 0.5  #: rounded up, as Java does

Client = tuple[str, str | None]  #: user, client_id; or an address, None


class Window:
    """`samples` windows of `window_ms` each: quota.window.num and quota.window.size.seconds."""

    __slots__ = ("samples", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self.samples = samples
        self.window_ms = window_ms

    @property
    def total_ms(self) -> int:
        """The time after which nothing is remembered of a silent client."""
        return self.samples * self.window_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class Rate:
    """What one client did, in samples that start when something is recorded."""

    __slots__ = ("_samples", "_window", "last_ms")

    def __init__(self, window: Window) -> None:
        self.last_ms = 0  #: when something was recorded last
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

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """Return how long the client must wait until its rate is the quota again; 0 if it is not above it."""
        self._forget(now_ms)
        window_ms = self._window_ms(now_ms)
        rate = sum(sample.value for sample in self._samples) / (window_ms / _MS)
        return 0 if rate <= quota else _rounded_ms((rate - quota) / quota * window_ms)

    def _forget(self, now_ms: int) -> None:
        """Drop samples that are older than all windows."""
        self._samples = [sample for sample in self._samples if now_ms - sample.last_ms < self._window.total_ms]

    def _window_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is taken: since the oldest sample, but at least all windows except the current one."""
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
    """The meter of each client. A client that was silent for all windows may lose its meter."""

    def __init__(self, new: Callable[[Window], Meter]) -> None:
        self._new: Callable[[Window], Meter] = new
        self._by_client: dict[Client, Meter] = {}
        self._count_max = METERS_MAX  #: above this number silent ones are dropped; then twice the number of the others

    def __len__(self) -> int:
        return len(self._by_client)

    def of(self, client: Client, window: Window, now_ms: int) -> Meter:
        """Return the client's meter, and create it at first use."""
        meter = self._by_client.get(client)
        if meter is None:
            if len(self._by_client) >= self._count_max:
                self._drop_silent(window, now_ms)
            meter = self._by_client[client] = self._new(window)
        return meter

    def _drop_silent(self, window: Window, now_ms: int) -> None:
        self._by_client = {client: meter for client, meter in self._by_client.items() if abs(now_ms - meter.last_ms) < window.total_ms}
        self._count_max = max(METERS_MAX, 2 * len(self._by_client))


def _rounded_ms(wait_ms: float) -> int:
    """Round as Java's Math.round. The smallest quota leads to the longest wait; NaN to none."""
    return 0 if isnan(wait_ms) else floor(min(max(wait_ms, 0), THROTTLE_MAX_MS) + _HALF)
