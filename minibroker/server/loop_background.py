"""Background work of a running broker: a few worker threads and, for what computes, processes; results are brought back to the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from minibroker.server.worker_processes import WorkerProcesses

T = TypeVar("T")


class LoopBackground:
    """Background over threads and processes. Both start with the first work, not with the broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_count: int) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(thread_count, "minibroker-background")
        self._processes: WorkerProcesses | None = None

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` in a thread, then `done(result or exception)` on the loop."""

        def bring_back(future: Future[T]) -> None:
            error = future.exception()
            result: T | BaseException = future.result() if error is None else error
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, result)

        self._executor.submit(work).add_done_callback(bring_back)

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run picklable `work` in another process; see server/worker_processes.py."""
        if self._processes is None:
            from minibroker.server.worker_processes import WorkerProcesses  # noqa: PLC0415  a start does without

            self._processes = WorkerProcesses(self._loop)
        return self._processes.submit(work, done)

    def close(self) -> None:
        """Wait for what runs in threads; what runs in processes is lost."""
        if self._processes is not None:
            self._processes.close()
        self._executor.shutdown(wait=True)
