"""The clock of a broker under test: it runs like the system's, and `advance` moves it forward at once.

Retention, compaction lag, timeouts of sessions and transactions, and LogAppendTime follow it.
Clients have their own time. The clock cannot stand still: a Fetch that waits half a second must be
answered, or its client gives up.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Final

from minibroker.clock import Timer

_STEPS: Final = 1000  #: at most this many stops of the clock during one `advance`


class _Timer:
    """A callback that has not run yet. `handle` is the loop's timer for it."""

    __slots__ = ("callback", "due_ms", "handle")

    def __init__(self, due_ms: float, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback: Callable[[], None] | None = callback
        self.handle: asyncio.TimerHandle | None = None

    def run(self) -> None:
        callback = self.callback
        self.cancel()
        if callback is not None:
            callback()

    def cancel(self) -> None:
        self.callback = None
        if self.handle is not None:
            self.handle.cancel()
            self.handle = None


class MovingClock:
    """Clock of a broker under test, on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead_ms = 0.0  #: ahead of the loop's time
        self._wall_ahead_ms = 0.0  #: ahead of the system's time
        self._order = count()
        self._timers: list[tuple[float, int, _Timer]] = []  #: a heap; timers that ran or were cancelled are skipped

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000 + int(self._wall_ahead_ms)

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ms`; 0: at the end of this turn of the loop, after callbacks that are ready."""
        if delay_ms <= 0:
            return self._loop.call_soon(callback)
        timer = _Timer(self.elapsed_ms() + delay_ms, callback)
        timer.handle = self._loop.call_later(delay_ms / 1000, timer.run)
        if len(self._timers) >= 1024 and len(self._timers) & (len(self._timers) - 1) == 0:
            self._drop_done()
        heapq.heappush(self._timers, (timer.due_ms, next(self._order), timer))
        return timer

    def advance(self, delta_ms: float) -> None:
        """Move the clock forward. Due timers run in order, each at its own time.

        If the time is long, timers near each other run together, so that a repeating timer runs at
        most 1000 times.
        """
        end_ms = self.elapsed_ms() + delta_ms
        step_ms = delta_ms / _STEPS if delta_ms > _STEPS * 1000 else 0.0
        while (due_ms := self._next_due_ms()) is not None and due_ms <= end_ms:
            self._go_to(min(max(due_ms, self.elapsed_ms() + step_ms), end_ms))
            reached_ms = self.elapsed_ms()
            while self._timers and self._timers[0][0] <= reached_ms:
                heapq.heappop(self._timers)[2].run()
        self._go_to(end_ms)
        self._reschedule()

    def return_to_present(self) -> None:
        """Show the system's time again; timers are not affected."""
        self._wall_ahead_ms = 0.0

    def elapsed_ms(self) -> float:
        """Return milliseconds since a fixed moment; unlike `now_ms`, they never go back."""
        return self._loop.time() * 1000 + self._ahead_ms

    def _go_to(self, elapsed_ms: float) -> None:
        passed_ms = max(elapsed_ms - self.elapsed_ms(), 0.0)
        self._ahead_ms += passed_ms
        self._wall_ahead_ms += passed_ms

    def _next_due_ms(self) -> float | None:
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _drop_done(self) -> None:
        self._timers = [each for each in self._timers if each[2].callback is not None]
        heapq.heapify(self._timers)

    def _reschedule(self) -> None:
        """Schedule all timers again: the loop does not know of the advanced time."""
        self._drop_done()
        now_ms = self.elapsed_ms()
        for due_ms, _, timer in self._timers:
            if timer.handle is not None:
                timer.handle.cancel()
            timer.handle = self._loop.call_later(max(due_ms - now_ms, 0) / 1000, timer.run)
