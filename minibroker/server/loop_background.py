"""Background work of a running broker: a few worker threads, results brought back to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class LoopBackground:
    """Background over threads. Threads start with the first work, not with the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_count: int) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(thread_count, "minibroker-background")

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` in a thread, then `done(result or exception)` on the loop."""

        def bring_back(future: Future[T]) -> None:
            error = future.exception()
            result: T | BaseException = future.result() if error is None else error
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, result)

        self._executor.submit(work).add_done_callback(bring_back)

    def close(self) -> None:
        """Wait for the work that was submitted."""
        self._executor.shutdown(wait=True)
