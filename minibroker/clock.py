"""`Clock`: the time and the timers of the broker, injected so that tests can control them.

`now_ms` is wall time in milliseconds since the epoch, like Kafka's timestamps. Timers count elapsed time: if the wall clock jumps a day,
no timer fires early.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Protocol


class Timer(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None:
        """Prevent the callback from running. Harmless if it has run."""


class Clock(Protocol):
    """Time and timers."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` once, `delay_ms` from now, on the thread that owns the clock."""


class WallClock:
    """The time of this machine, without timers, for tools that never wait."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Raise NotImplementedError: without a loop nothing would run the callback."""
        raise NotImplementedError("WallClock has no timers; use the server's LoopClock or a ManualClock")


class ManualTimer:
    """A timer of ManualClock."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Drop the callback."""
        self.callback = None


class ManualClock:
    """A clock that only a test advances. Timers run in the order in which they are due."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._elapsed_ms = 0
        self._order = count()
        self._timers: list[tuple[int, int, ManualTimer]] = []

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, which change only by `advance` and `jump`."""
        return self._now_ms

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> ManualTimer:
        """Run `callback` when `advance` reaches its time."""
        timer = ManualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed_ms + max(delay_ms, 0), next(self._order), timer))
        return timer

    def advance(self, delta_ms: int) -> None:
        """Let `delta_ms` pass. Each timer that becomes due runs at its own time, including timers that other timers add."""
        end_ms = self._elapsed_ms + delta_ms
        while self._timers and self._timers[0][0] <= end_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._now_ms += due_ms - self._elapsed_ms
            self._elapsed_ms = due_ms
            callback, timer.callback = timer.callback, None
            if callback is not None:
                callback()
        self._now_ms += end_ms - self._elapsed_ms
        self._elapsed_ms = end_ms

    def jump(self, delta_ms: int) -> None:
        """Set the wall clock forward or back, as an operator or NTP does. No time passes for timers."""
        self._now_ms += delta_ms
