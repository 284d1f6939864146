"""A broker in memory whose sliced work has one step in each turn of the loop, and a test that looks at the broker after each turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from heapq import heappop
from itertools import count
from types import FrameType
from typing import Any, TypeVar

from minibroker.dispatch.delayed import Delayed
from minibroker.errors import WireError
from tests.support.broker_in_memory import BrokerInMemory, Pending

T = TypeVar("T")


def shortest_slices(broker: BrokerInMemory) -> None:
    """From now on a slice is over at its first pause."""
    looks = count()
    broker.services.slices.now_s = lambda: float(next(looks))


def result_of(steps: Generator[None, None, T]) -> T:
    """Run a generator that only pauses to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def turn(broker: BrokerInMemory) -> None:
    """Let the loop run once: what is due now, but not what that schedules."""
    clock = broker.clock
    due = []
    while clock._timers and clock._timers[0][0] <= clock._elapsed_ms:
        due.append(heappop(clock._timers)[2])
    for timer in due:
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()


def turns(broker: BrokerInMemory, pending: Pending) -> Iterator[None]:
    """Let the loop run until a request is answered; yields after each turn."""
    while not pending.is_done:
        turn(broker)
        yield


def calls_in(work: Callable[[], object]) -> int:
    """How many functions `work` calls."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        if event in {"call", "c_call"}:
            count += 1

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def most_calls(broker: BrokerInMemory, frame: bytes) -> int:
    """Serve a frame to its end; the most functions that were called in one turn."""
    answers: list[Any] = []

    def begin() -> None:
        try:
            answers.append(broker.dispatcher.dispatch(broker.connection, memoryview(bytearray(frame))))
        except WireError:
            answers.append(None)

    most = calls_in(begin)
    answer = answers[0]
    while isinstance(answer, Delayed) and not answer.is_done and len(broker.services.slices):
        most = max(most, calls_in(lambda: turn(broker)))
    if isinstance(answer, Delayed):
        answer.cancel()
    return most
