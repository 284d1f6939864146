"""Sliced work (dispatch/slices.py) of a BrokerInMemory, a step of it in each turn of the loop."""

from __future__ import annotations

from heapq import heappop
from itertools import count

from tests.support.broker_in_memory import BrokerInMemory, Pending


class SliceTurns:
    """From now on each pause of sliced work ends the turn."""

    def __init__(self, broker: BrokerInMemory) -> None:
        looks = count()
        broker.services.slices.now_s = lambda: float(next(looks))  # each look finds the slice over
        self._clock = broker.clock

    def turn(self) -> bool:
        """Let the loop run once: what is due now, and not what that schedules. Returns whether anything was due."""
        timers, now = self._clock._timers, self._clock._elapsed_ms
        due = [heappop(timers) for _ in range(sum(each[0] <= now for each in timers))]
        for _, _, timer in due:
            if timer.callback is not None:
                timer.callback()
        return bool(due)

    def until_done(self, pending: Pending) -> int:
        """Run turns until the request is answered, and count them."""
        turns = 0
        while not pending.is_done:
            assert self.turn(), "the request waits and nothing is due"
            turns += 1
        return turns
