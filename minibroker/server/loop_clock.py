"""The event loop's clock: wall time from the system, timers from the loop, which count elapsed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from minibroker.clock import Clock, Timer
from minibroker.server.watchdog import Watchdog

_TIMER = "a timer"


class LoopClock:
    """Clock of a running broker; all its callbacks run on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.watchdog = Watchdog()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ms`; 0 means at the end of this turn of the loop, behind what is ready already."""
        if delay_ms <= 0:
            return self._loop.call_soon(self.watchdog.run, _TIMER, callback)
        return self._loop.call_later(delay_ms / 1000, self.watchdog.run, _TIMER, callback)


def watchdog_of(clock: Clock) -> Watchdog:
    """The watchdog of a running broker's clock; another one for a clock of a test."""
    return clock.watchdog if isinstance(clock, LoopClock) else Watchdog()
