"""The event loop that runs the broker, and its clock.

The loop is uvloop if it is installed, else asyncio's. `MINIBROKER_LOOP=asyncio|uvloop` chooses one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from minibroker.clock import Clock, Timer
from minibroker.errors import ConfigurationError
from minibroker.server.watchdog import Watchdog

VARIABLE: Final = "MINIBROKER_LOOP"
_TIMER = "a timer"


def loop_factory(choice: str | None = None) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a function that makes the loop: `choice`, else that of the environment, else the fastest one.

    Raises:
        ConfigurationError: the choice is unknown, or uvloop was asked for and is not installed.
    """
    choice = choice or os.environ.get(VARIABLE) or "best"
    if choice not in {"best", "asyncio", "uvloop"}:
        raise ConfigurationError(f"{VARIABLE}={choice}: use asyncio or uvloop")
    if choice != "asyncio":
        try:
            import uvloop  # noqa: PLC0415  optional
        except ImportError:
            if choice == "uvloop":
                raise ConfigurationError(f"{VARIABLE}=uvloop, but uvloop is not installed") from None
        else:
            factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
            return factory
    return asyncio.new_event_loop


def run(main: Coroutine[Any, Any, None], choice: str | None = None) -> None:
    """Run `main` to its end on the chosen loop."""
    with asyncio.Runner(loop_factory=loop_factory(choice)) as runner:
        runner.run(main)


class LoopClock:
    """The clock of a running broker: wall time from the system, timers from the loop. Callbacks run on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.watchdog = Watchdog()

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def call_later_ms(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after `delay_ms`; 0 means at the end of this turn of the loop, after callbacks that are ready."""
        if delay_ms <= 0:
            return self._loop.call_soon(self.watchdog.run, _TIMER, callback)
        return self._loop.call_later(delay_ms / 1000, self.watchdog.run, _TIMER, callback)


def watchdog_of(clock: Clock) -> Watchdog:
    """Return the watchdog of a running broker's clock; a new one for the clock of a test."""
    return clock.watchdog if isinstance(clock, LoopClock) else Watchdog()
