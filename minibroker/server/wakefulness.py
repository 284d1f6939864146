"""Keep the processor awake between the requests of a client that waits for each answer.

An idle processor sleeps. Waking it takes tens of microseconds, in a virtual machine more than serving the request. While turns
follow each other closely, the loop therefore polls for a moment before it sleeps:

    asleep   --STREAK turns, each within GAP_S of the one before--> awake
    awake    polls, and lets other processes of this processor run first
             --AWAKE_S without a turn--> asleep, and the streak starts again

A broker that is idle, or gets few requests, never polls. A burst costs at most AWAKE_S of processor time at its end. With one
processor the broker never polls, because the client needs the processor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

GAP_S: Final = 0.000_250  #: within this time a client that the answer wakes sends its next request, if both processors slept
AWAKE_S: Final = 0.000_120  #: the same, if only the client had to be woken
STREAK: Final = 32


class Wakefulness:
    """Decides when the loop of one listener polls."""

    __slots__ = ("_call_soon", "_is_alone", "_last_s", "_now_s", "_streak_start", "is_awake", "turns")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], *, now_s: Callable[[], float] = time.perf_counter, processors: int = 0
    ) -> None:
        self.is_awake = False  #: polling
        self._call_soon = call_soon
        self._now_s = now_s
        self._is_alone = (processors or processors_of_this_process()) < 2
        self._last_s = now_s()
        self.turns = 0  #: turns in which requests were served
        self._streak_start = 0  #: the turn before the first of those that follow each other closely

    def turn(self) -> float:
        """Note that requests were served just now. Returns the time, in seconds of `now_s`."""
        now_s = self._now_s()
        turns = self.turns = self.turns + 1
        if now_s - self._last_s >= GAP_S:
            self._streak_start = turns
        self._last_s = now_s
        if turns - self._streak_start >= STREAK and not self.is_awake and not self._is_alone:
            self.is_awake = True
            self._call_soon(self._poll)
        return now_s

    def _poll(self) -> None:
        """Called at the end of each turn of the loop while awake: the loop does not sleep as long as this is scheduled."""
        if self._now_s() - self._last_s < AWAKE_S:
            os.sched_yield()
            self._call_soon(self._poll)
        else:
            self.is_awake = False
            self._streak_start = self.turns


def processors_of_this_process() -> int:
    """Return how many processors this process may use; 1 if unknown, so that the loop never polls."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
