"""Threads that send slices of files, so that several clients that read much are served by more than one processor.

sendfile releases the interpreter's lock. While a thread is in it, the loop serves other requests:

    send(slice, socket)     the slice and a second descriptor of the socket go to a thread, if that pays; else None: the loop sends
    the thread              one sendfile, as much as the socket takes now. It never waits for a client
    done                    called on the loop. What the socket did not take, and every error, is left to the loop

Until `done`, the thread owns this slice and the connection's turn to write, and nothing else. The loop does not touch either. The
connection may be closed meanwhile: then `cancel` shuts the socket down, so that the client notices at once, and `done` is not called.

It pays if several clients read much: one slice after the other of the same connection is sent faster by the loop, and so are small ones.
The threads start with the first slice and stop after the last connection. The queue is bounded by QUEUED_MAX, beyond which the loop sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

from minibroker.server.loop import Watchdog
from minibroker.server.wakefulness import processors_of_this_process
from minibroker.storage.file_slice import FileSlice

log = logging.getLogger(__name__)

AUTO: Final = -1  #: `minibroker.sender.threads`: one fewer than processors, since the loop needs one
_AUTO_MAX: Final = 3
THREAD_SIZE: Final = 640 * 1024  #: bytes from which a thread pays: waking it and the loop takes as long as sending 300 kB
QUEUED_MAX: Final = 256  #: slices that wait or are sent; each has two descriptors
_KIND: Final = "a sent answer"


class Sending:
    """A slice and a socket that a thread has."""

    __slots__ = ("_chunk", "_descriptor", "_done")

    def __init__(self, chunk: FileSlice, descriptor: int, done: Callable[[], None]) -> None:
        self._chunk = chunk
        self._descriptor = descriptor
        self._done: Callable[[], None] | None = done  #: None: cancelled

    def send(self) -> None:
        """Send what the socket takes now. The thread calls this."""
        if self._done is None:
            return
        try:
            self._chunk.send_to(self._descriptor)
        except Exception:  # noqa: BLE001  the loop reads the rest of the slice, and raises what there is to raise
            self._chunk.must_be_read = True

    def finish(self) -> None:
        """Report on the loop that the thread has nothing of the connection any more."""
        self.release()
        if self._done is not None:
            self._done()

    def release(self) -> None:
        """Let go of the slice and of the thread's descriptor of the socket, which is the last one if the connection is closed."""
        os.close(self._descriptor)
        del self._chunk

    def cancel(self) -> None:
        """Disconnect the client, because the connection is closed. The socket itself stays open until the thread has finished."""
        self._done = None
        with contextlib.suppress(OSError):
            own = socket.socket(fileno=self._descriptor)
            try:
                own.shutdown(socket.SHUT_RDWR)
            finally:
                own.detach()


class SenderThreads:
    """The threads of one broker; all calls come from the thread of its loop."""

    def __init__(self, count: int = 0, watchdog: Watchdog | None = None) -> None:
        """`count`: AUTO, or a number of threads; 0: the loop sends everything."""
        self._count = min(processors_of_this_process() - 1, _AUTO_MAX) if count == AUTO else count
        self._watchdog = watchdog or Watchdog()
        self._queue: SimpleQueue[Sending | None] | None = None  #: of the running threads
        self._queued = 0
        self._last = -1  #: the socket of the last slice

    def send(self, chunk: FileSlice, descriptor: int, done: Callable[[], None]) -> Sending | None:
        """Let a thread send `chunk` to the socket `descriptor`, then call `done`.

        Returns:
            None if the loop should send it: no thread can or may, or it would not be faster.
        """
        if not self._count or not self._pays(chunk, descriptor) or not chunk.can_leave_the_loop or self._queued >= QUEUED_MAX:
            return None
        queue = self._queue or self._start()
        if queue is None:
            return None
        try:
            own = os.dup(descriptor)
        except OSError:  # no descriptor is left
            return None
        sending = Sending(chunk, own, done)
        self._queued += 1
        queue.put(sending)
        return sending

    def _pays(self, chunk: FileSlice, descriptor: int) -> bool:
        """Whether another client read before this one, and the slice is large."""
        last, self._last = self._last, descriptor
        return descriptor != last >= 0 and len(chunk) >= THREAD_SIZE

    def close(self) -> None:
        """Let the threads end after what they are sending. `send` starts new ones."""
        if self._queue is not None:
            for _ in range(self._count):
                self._queue.put(None)
            self._queue = None

    def _start(self) -> SimpleQueue[Sending | None] | None:
        loop = asyncio.get_running_loop()
        queue: SimpleQueue[Sending | None] = SimpleQueue()

        def report(sending: Sending) -> None:
            loop.call_soon_threadsafe(self._watchdog.run, _KIND, self._finished, sending)

        for number in range(self._count):
            try:
                threading.Thread(target=_send_all, args=(queue, report), name=f"minibroker-sender-{number}", daemon=True).start()
            except RuntimeError as error:
                log.warning("could not start thread %d of minibroker.sender.threads=%d: %s", number + 1, self._count, error)
                self._count = number
                if not number:
                    return None
                break
        self._queue = queue
        return queue

    def _finished(self, sending: Sending) -> None:
        self._queued -= 1
        sending.finish()


def _send_all(queue: SimpleQueue[Sending | None], report: Callable[[Sending], None]) -> None:
    """Send slices until None comes. Runs in a thread."""
    while True:
        sending = queue.get()
        if sending is None:
            return
        sending.send()
        try:
            report(sending)
        except RuntimeError:  # the loop is closed
            sending.release()
        del sending
