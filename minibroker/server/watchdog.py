"""Warns in the log when one turn of work held the event loop, so that every other client waited.

    Metadata v12 of client 'x' at 127.0.0.1 (2,000,123 bytes) held the event loop for 312 ms
    a timer (Maintenance._delete_old) held the event loop for 180 ms
    a timer (Slices._turn: CreateTopics v7 of client 'x' at 127.0.0.1 (80,123 bytes)) held the event loop for 150 ms

A turn is what a connection serves at once, a callback of the clock, or the result of background work. It is timed as a whole, by one look
at the clock at its start and one at its end. Only when it was slow, the connection looks for the largest request of the turn, which is
still in its buffer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

SLOW_S: Final = 0.100  #: a turn above this is reported
_LOG_EVERY_S: Final = 10.0  #: at most one line in this time; the next one counts those between


class Watchdog:
    """One for each broker; lives on its loop."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self.slow_turns = 0
        self._now_s = now_s
        self._found_s = float("-inf")  #: when the last slow turn ended
        self._logged_s = float("-inf")
        self._logged_turns = 0

    def run(self, kind: str, work: Callable[..., object], *arguments: object) -> None:
        """Run `work` as a turn. `kind` says what it is: "a timer"."""
        began_s = self._now_s()
        work(*arguments)
        if self._now_s() - began_s > SLOW_S:
            self.found(began_s, lambda: f"{kind} ({_name_of(work)})")

    def found(self, began_s: float, what: Callable[[], str]) -> None:
        """A turn that started at `began_s` was slow. One within another that was reported already does not count."""
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
        log.warning("%s held the event loop for %d ms%s", what(), round((now_s - began_s) * 1000), also)


def _name_of(work: Callable[..., object]) -> str:
    function = getattr(work, "func", work)
    name = str(getattr(function, "__qualname__", type(function).__name__))
    request = getattr(getattr(function, "__self__", None), "slowest", "")  # of dispatch.slices.Slices
    return f"{name}: {request}" if request else name
