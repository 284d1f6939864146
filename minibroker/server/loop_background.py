"""Background work of a running broker: a few worker threads, and processes for work that computes. Results come back to the loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from minibroker.background import WorkLost
from minibroker.server.loop import Watchdog

if TYPE_CHECKING:
    from minibroker.server.worker_processes import WorkerProcesses

T = TypeVar("T")

_RESULT = "the result of background work"


def unawaited(work: Callable[[], object], done: Callable[[object], None]) -> None:
    """Run `work` in a new thread, then `done(result or exception)` on the loop that runs now.

    A broker that stops does not wait for it. It is for work that may take arbitrarily long, such as resolving a name.
    """
    loop = asyncio.get_running_loop()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001  any exception of the work is its result
            result = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done, result)

    threading.Thread(target=run, name="minibroker-unawaited", daemon=True).start()


class LoopBackground:
    """Background over threads and processes. Both start with the first work, not with the broker."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, thread_count: int, *, has_processes: bool = True, watchdog: Watchdog | None = None
    ) -> None:
        """`has_processes`: False if another process would not find the files. Work for processes then runs in threads."""
        self._watchdog = watchdog or Watchdog()
        self._loop = loop
        self._has_processes = has_processes
        self._executor = ThreadPoolExecutor(thread_count, "minibroker-background")
        self._processes: WorkerProcesses | None = None
        self._is_closed = False

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` in a thread, then `done(result or exception)` on the loop.

        After `close`, drop both: the timer of a removal may run in the last turns of the loop. The next start finishes such work.
        """
        if self._is_closed:
            return

        def bring_back(future: Future[T]) -> None:
            error = future.exception()
            result: T | BaseException = future.result() if error is None else error
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._watchdog.run, _RESULT, done, result)

        self._executor.submit(work).add_done_callback(bring_back)

    def submit_process(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run picklable `work` in another process; see server/worker_processes.py. After `close`, drop it as `submit` does."""
        if self._is_closed:
            return lambda: None
        if not self._has_processes:
            return self._submit_copy(work, done)
        if self._processes is None:
            from minibroker.server.worker_processes import WorkerProcesses  # noqa: PLC0415  not needed at start

            self._processes = WorkerProcesses(self._loop)
        return self._processes.submit(work, partial(self._watchdog.run, _RESULT, done))

    def _submit_copy(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run a copy of `work` in a thread, as another process would. Cancelled work runs to its end, and its result is dropped."""
        import pickle  # noqa: PLC0415  not needed at start

        is_cancelled = False

        def run() -> T:
            result: T = pickle.loads(pickle.dumps(work))()  # noqa: S301  our own
            return result

        def finish(result: T | BaseException) -> None:
            done(WorkLost("cancelled") if is_cancelled else result)

        def cancel() -> None:
            nonlocal is_cancelled
            is_cancelled = True

        self.submit(run, finish)
        return cancel

    def close(self) -> None:
        """Wait for the work in threads and cancel the work in processes. Harmless if repeated."""
        self._is_closed = True
        if self._processes is not None:
            self._processes.close()
        self._executor.shutdown(wait=True)
