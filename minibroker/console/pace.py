"""Pauses in long work on the loop, so that requests of clients are served in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Any, Final, TypeVar

from minibroker.dispatch.slices import in_order

T = TypeVar("T")

SLICE_S: Final = 0.001  #: work between two pauses
LIVE_SLICE_S: Final = 0.000_25  #: likewise, of work that is repeated all the time: it would delay one in a hundred requests


class Pace:
    """Counts the time since the last pause of one piece of work."""

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._pause_s = time.perf_counter() + slice_s

    @property
    def is_due(self) -> bool:
        """Whether the work has to pause."""
        return time.perf_counter() >= self._pause_s

    async def keep(self) -> None:
        """Pause if that is due."""
        if self.is_due:
            await asyncio.sleep(0)
            self._pause_s = time.perf_counter() + self._slice_s


async def paced(items: Iterable[T], every: int = 20) -> AsyncIterator[T]:
    """Yield items, with a pause when one is due; it looks at the clock at every `every`-th item."""
    pace = Pace()
    for number, each in enumerate(items):
        if number % every == 0:
            await pace.keep()
        yield each


async def first(items: AsyncIterator[T], count: int) -> AsyncIterator[T]:
    """Yield at most `count` items."""
    left = count
    async for each in items:
        yield each
        left -= 1
        if not left:
            return


async def drive(steps: Generator[Any, Any, T]) -> T:
    """Run a generator of the broker that yields at pauses. Returns its result."""
    pace = Pace()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await pace.keep()


async def sorted_names(names: Iterable[str]) -> list[str]:
    """Sort names with pauses."""
    return [each async for each in paced(await drive(in_order(list(names))), every=200)]
