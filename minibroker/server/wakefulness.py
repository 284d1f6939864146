"""Staying awake between the requests of a client that waits for each answer.

A processor without work goes to sleep, and waking it takes tens of microseconds, in a virtual machine more than serving the request.
While turns keep following each other closely, the loop therefore polls for a moment before it sleeps:

    asleep   --STREAK turns, each within GAP_S of the one before--> awake
    awake    polls, and lets any other process of this processor go first
             --AWAKE_S without a turn--> asleep, and the streak begins anew

A broker that is idle, or asked now and then, never polls; a burst costs at most AWAKE_S of processor time at its end. With one
processor there is nobody to be awake for: the client needs it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

GAP_S: Final = 0.000_250  #: a client that is woken by the answer and asks again is back within this, both ways slept
AWAKE_S: Final = 0.000_120  #: the same client, when only it had to be woken
STREAK: Final = 32


class Wakefulness:
    """One for each listener; lives on its loop."""

    __slots__ = ("_call_soon", "_is_alone", "_last_s", "_now_s", "_streak_start", "is_awake", "turns")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], *, now_s: Callable[[], float] = time.perf_counter, processors: int = 0
    ) -> None:
        self.is_awake = False  #: polling; written by `turn` and `_poll`
        self._call_soon = call_soon
        self._now_s = now_s
        self._is_alone = (processors or processors_of_this_process()) < 2
        self._last_s = now_s()
        self.turns = 0  #: how often requests were served
        self._streak_start = 0  #: the turn before the first of those that follow each other closely

    def turn(self) -> float:
        """Requests were served just now. Returns the time, in seconds of `now_s`."""
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
    """How many processors may run us; 1 where the system does not say, which only means that nothing is polled."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
