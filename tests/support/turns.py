"""A broker in memory whose sliced work has one step in each turn of the loop, and a test that looks at the broker after each turn."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tests.support.broker_in_memory import BrokerInMemory, Pending


def shortest_slices(broker: BrokerInMemory) -> None:
    """From now on a slice is over at its first pause."""
    looks = count()
    broker.services.slices.now_s = lambda: float(next(looks))


def turn(broker: BrokerInMemory) -> None:
    """Let the loop run once: what is due now, but not what that schedules."""
    timers = broker.clock._timers
    due = [timer for _, _, timer in sorted(timers, key=lambda each: each[:2])]
    timers.clear()
    for timer in due:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()


def turns(broker: BrokerInMemory, pending: Pending) -> Iterator[None]:
    """Let the loop run until a request is answered; yields after each turn."""
    while not pending.is_done:
        turn(broker)
        yield
