"""Run work that computes for seconds, such as compaction, in child processes, which do not share the broker's interpreter lock.

A process starts with the first work and is used again. It stops after a while without work, which frees its memory. A broker that never
compacts has none. Each piece of work has a thread that waits for its result. server/worker_child.py describes how work and results are
encoded. If a process dies, or is killed because its work is cancelled, the waiting caller gets WorkLost.

Everything here runs on the loop's thread, except where a docstring names another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle  # the data come from our own child process
import subprocess
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable
from typing import IO, Any, Final, TypeVar, cast

from minibroker.background import LowPriority, WorkLost
from minibroker.server import logs
from minibroker.server.worker_child import SIZE

T = TypeVar("T")

IDLE_S: Final = 10.0
#: Modules are found where the broker found them, as by multiprocessing's spawned processes.
_START: Final = "import sys; sys.path[:] = sys.argv.pop().split('\\n'); from minibroker.server.worker_child import main; main()"


class Worker:
    """One process. All methods but `kill` may block, and are called in threads."""

    def __init__(self, *, is_low: bool = False) -> None:
        self.is_low = is_low  #: whether it gets only work of low priority: it cannot raise its priority again
        command = [sys.executable, "-c", _START, *logs.in_use(), "\n".join(sys.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)  # noqa: S603  ourselves
        self._input, self._output = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def call(self, work: bytes) -> Any:
        """Return the result of pickled `work`, or raise its exception. Raises WorkLost if the process is gone."""
        try:
            self._input.write(SIZE.pack(len(work)) + work)
            self._input.flush()
            (size,) = SIZE.unpack(_read(self._output, SIZE.size))
            is_raised, result = pickle.loads(_read(self._output, size))  # noqa: S301  from our child
        except (OSError, EOFError) as error:
            self.kill()
            self.end()
            raise WorkLost(f"the worker process is gone, status {self._process.returncode}") from error
        if is_raised:
            raise result
        return result

    def kill(self) -> None:
        """Kill the process in the middle of its work; `call` raises WorkLost."""
        self._process.kill()

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """Let the process exit, and wait for it."""
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return data


class _Job:
    """A piece of work, from `submit` to `done`."""

    def __init__(self, worker: Worker | None, *, is_low: bool) -> None:
        self._is_low = is_low
        self._lock = threading.Lock()  #: guards the fields below, which both threads use
        self._worker = worker
        self.is_cancelled = False

    def run(self, work: Callable[[], T]) -> tuple[Worker | None, T | BaseException]:
        """Return the worker, if it can be used again, and the result. Called in a thread."""
        try:
            data = pickle.dumps(work)
            worker = self._started()
        except Exception as error:  # noqa: BLE001  no descriptors, no memory, not picklable: the result
            return self._worker, error
        try:
            return worker, worker.call(data)
        except WorkLost as error:
            return None, error
        except Exception as error:  # noqa: BLE001  any exception of the work is its result
            return worker, error

    def _started(self) -> Worker:
        worker = self._worker or Worker(is_low=self._is_low)
        with self._lock:
            self._worker = worker
            if self.is_cancelled:
                worker.kill()
        return worker

    def cancel(self) -> None:
        """Kill the process, now or as soon as it has started."""
        with self._lock:
            self.is_cancelled = True
            if self._worker is not None:
                self._worker.kill()


class WorkerProcesses:
    """One process for each piece of work under way. The callers of `submit` keep the number low."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, idle_s: float = IDLE_S) -> None:
        self._loop = loop
        self._idle_s = idle_s
        self._jobs: dict[_Job, threading.Event] = {}  #: under way; the event is set when the thread has done its work
        self._idle: dict[Worker, asyncio.TimerHandle] = {}

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> Callable[[], None]:
        """Run `work` in a process, then `done(result or exception)` on the loop. Returns a function that cancels the work."""
        is_low = isinstance(work, LowPriority)
        job = _Job(self._take_idle(is_low=is_low), is_low=is_low)

        def run() -> None:
            worker, result = job.run(work)
            has_ended.set()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(finish, worker, result)

        def finish(worker: Worker | None, result: T | BaseException) -> None:
            if job in self._jobs:  # else `close` has ended it
                del self._jobs[job]
                if worker is not None:
                    delay_s = 0 if job.is_cancelled else self._idle_s
                    self._idle[worker] = self._loop.call_later(delay_s, self._end, worker)
            done(result)

        def cancel() -> None:
            if job in self._jobs:
                job.cancel()

        has_ended = threading.Event()
        start_new_thread(run, ())  # Thread.start would wait until the thread runs, which takes long on a busy machine
        self._jobs[job] = has_ended
        return cancel

    def _take_idle(self, *, is_low: bool) -> Worker | None:
        for worker in self._idle:
            if worker.is_alive and worker.is_low is is_low:
                self._idle.pop(worker).cancel()
                return worker
        return None

    def _end(self, worker: Worker) -> None:
        del self._idle[worker]
        threading.Thread(target=worker.end, name="minibroker-worker-end", daemon=True).start()

    def close(self) -> None:
        """Stop every process; work under way is lost."""
        jobs, self._jobs = self._jobs, {}
        for job in jobs:
            job.cancel()
        for has_ended in jobs.values():
            has_ended.wait()
        for worker, timer in self._idle.items():
            timer.cancel()
            worker.end()
        self._idle.clear()
