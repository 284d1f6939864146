"""The event loop that runs the broker, its clock, its watchdog, and when it collects garbage.

The loop is uvloop if it is installed, else asyncio's. `MINIBROKER_LOOP=asyncio|uvloop` chooses one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from minibroker.clock import Clock, Timer
from minibroker.errors import ConfigurationError

log = logging.getLogger(__name__)

VARIABLE: Final = "MINIBROKER_LOOP"
_TIMER = "a timer"


def loop_factory(choice: str | None = None) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return a function that creates the loop: `choice`, else that of the environment, else the fastest one.

    Raises:
        ConfigurationError: the choice is unknown, or it is uvloop and uvloop is not installed.
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


SLOW_S: Final = 0.100  #: a turn above this is reported
_LOG_EVERY_S: Final = 10.0  #: at most one line in this time; the next one counts those between


class Watchdog:
    """Warns in the log when one turn of work held the event loop, so that every other client waited.

        Metadata v12 of client 'x' at 127.0.0.1 (2,000,123 bytes) held the event loop for 312 ms
        a timer (Maintenance._delete_old) held the event loop for 180 ms
        a timer (Slices._turn: CreateTopics v7 of client 'x' at 127.0.0.1 (80,123 bytes)) held the event loop for 150 ms

    A turn is the requests that a connection serves at once, a callback of the clock, or the result of
    background work. The clock is read at the start and at the end of a turn, and nowhere in between.
    Only after a slow turn, the connection looks for its largest request, which is still in its buffer.
    A broker has one watchdog.
    """

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self.slow_turns = 0
        self._now_s = now_s
        self._found_s = float("-inf")  #: when the last slow turn ended
        self._logged_s = float("-inf")
        self._logged_turns = 0

    def run(self, kind: str, work: Callable[..., object], *arguments: object) -> None:
        """Run `work` as a turn. `kind` names it in the log, for example "a timer"."""
        began_s = self._now_s()
        work(*arguments)
        if self._now_s() - began_s > SLOW_S:
            self.found(began_s, lambda: f"{kind} ({_name_of(work)})")

    def found(self, began_s: float, describe: Callable[[], str]) -> None:
        """Count and log a slow turn that started at `began_s`, unless a turn within it was reported already."""
        now_s = self._now_s()
        if self._found_s > began_s:
            return
        self._found_s = now_s
        self.slow_turns += 1
        if now_s - self._logged_s < _LOG_EVERY_S:
            return
        unlogged = self.slow_turns - self._logged_turns - 1
        self._logged_s, self._logged_turns = now_s, self.slow_turns
        also = f" ({unlogged:,} other slow turns since the last report)" if unlogged else ""
        log.warning("%s held the event loop for %d ms%s", describe(), round((now_s - began_s) * 1000), also)


def _name_of(work: Callable[..., object]) -> str:
    function = getattr(work, "func", work)
    name = str(getattr(function, "__qualname__", type(function).__name__))
    request = getattr(getattr(function, "__self__", None), "slowest", "")  # of dispatch.slices.Slices
    return f"{name}: {request}" if request else name


_THRESHOLDS: Final = (1_000, 5, 2_000)  #: new containers until a first check; first checks until a second one, second checks until a third


def put_off_garbage_collection() -> None:
    """Disable the collector while a broker starts: imported modules and opened logs stay, so there is nothing to collect."""
    gc.disable()


def settle_garbage_collection() -> None:
    """Enable the collector for objects that are created from now on, and let it run rarely and never for long: it stops every client.

    Usual requests leave no garbage cycles (tests/dispatch/test_garbage.py), so the collector only has
    to find unusual ones. It checks surviving objects twice: 1,000 new ones in 0.1 ms, then 5,000 in
    1 ms. A third check, of all objects, follows after ten million. (Python's default thresholds stop a
    broker of 5,000 partitions for 100 ms.)
    """
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()
