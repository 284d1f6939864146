"""A process that computes for the broker: the other end of server/worker_processes.py.

    standard input    work:    size (4 bytes, big-endian), then a pickled callable
    standard output   results: size, then a pickled pair of (whether it was raised, what was returned or raised)
    standard error    the broker's own, for log lines

It exits when its input ends, also in the middle of its work, so it does not outlive a broker, not even one that was killed. It runs at a
lower priority than requests, and in another process group: Ctrl-C at a terminal reaches only the broker.
"""

from __future__ import annotations

import contextlib
import os
import pickle  # the data come from our own parent process
import struct
import sys
import threading
from queue import SimpleQueue
from typing import Final, NoReturn

from minibroker.background import LowPriority
from minibroker.server import logs

SIZE: Final = struct.Struct(">I")
_NICENESS: Final = 10


def main() -> NoReturn:
    """Work until the input ends; arguments: log format, log level."""
    os.nice(_NICENESS)
    answers = os.dup(1)
    os.dup2(2, 1)  # `print` must not write among the answers
    logs.set_up(sys.argv[1], sys.argv[2])
    works: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_receive, args=(works,), daemon=True).start()
    while True:
        answer = _answer(works.get())
        _write(answers, SIZE.pack(len(answer)) + answer)


def _answer(data: bytes) -> bytes:
    try:
        work = pickle.loads(data)  # noqa: S301  from our parent
        if isinstance(work, LowPriority):
            _give_way()
        return pickle.dumps((False, work()))
    except Exception as error:  # noqa: BLE001  any exception of the work is its result
        return pickle.dumps((True, _picklable(error)))


def _give_way() -> None:
    """Run only while no other process wants the processor, where the system can do that. The imports are done: they should be fast."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # musl (Alpine), gVisor and some containers refuse it; the process is nice in any case
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _picklable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    except Exception:  # noqa: BLE001  an exception may refuse in any way
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _receive(works: SimpleQueue[bytes]) -> NoReturn:
    """Put received work into the queue. Runs in a thread, and exits the process when its input ends, even in the middle of work."""
    while True:
        works.put(_read(SIZE.unpack(_read(SIZE.size))[0]))


def _read(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
