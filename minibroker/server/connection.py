"""Serve one client's connection: cut bytes into frames, dispatch them, send the answers in the order of the requests.

A BufferedProtocol for asyncio and uvloop. Requests are served in the call that received them, without a task or a future, and without
a queue unless an answer has to wait. All answers of one call are sent with one write.

    reading   frames are served as they arrive
    waiting   an answer is not ready yet: later answers queue after it (`_queue`). More requests are still served, up to
              `queued.max.requests`. A parked Fetch is answered as soon as another request arrives.
    held      the client does not read its answers (pause_writing), or too many requests wait: frames stay in the buffer and
              the socket is not read. A client can therefore occupy one buffer and one answer. An answer in a file is not read
              into memory (file_output.py).
    sliced    held until a large request is done that is served in slices (dispatch/slices.py): its bytes are in the buffer
    short     held until there is memory for the rest of a large request (request_memory.py)
    muted     held for the throttle time of a quota (dispatch/quotas.py), which the last answer reports. The connection may be closed
              as idle meanwhile, as in Apache Kafka
    closing   the socket is not read any more; answers that are due are still sent
"""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Final, cast

from minibroker.clock import Timer
from minibroker.compilation import mypyc_attr
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.errors import WireError
from minibroker.server.answer_memory import HELD_SIZE
from minibroker.server.file_output import FileOutput
from minibroker.server.listener import Dispatches, Listener
from minibroker.server.login_memory import Stage
from minibroker.server.loop import SLOW_S
from minibroker.server.receive_buffer import ReceiveBuffer
from minibroker.server.request_memory import PATIENCE
from minibroker.storage.file_slice import FileSlice
from minibroker.wire.schema import Buffer

log = logging.getLogger(__name__)

WRITE_HIGH_WATER: Final = 512 * 1024  #: bytes of answers that wait for an earlier one; above it the client is held
_WRITE_EVERY: Final = 256 * 1024  #: bytes of answers that are collected before they are written
_TURN: Final = range(128)  #: requests of one connection that are served before others have their turn
_TURN_LAST: Final = _TURN[-1]
_TURN_S: Final = 0.005  #: time after which others have their turn, however few requests were served
_JOIN: Final = 16 * 1024  #: bytes up to which joining the chunks is cheaper than writing a list of them


class _NoMemory:
    """Holds a connection while there is no memory for the rest of its request."""

    def cancel(self) -> None:
        """Do nothing: RequestMemory forgets a closed connection."""


_NO_MEMORY: Final = _NoMemory()


@mypyc_attr(allow_interpreted_subclasses=True)  # metrics/meter.py, testing/faults/effects.py
class Connection(asyncio.BufferedProtocol):
    """Server side of one connection."""

    __slots__ = (
        "_buffer",
        "_dispatcher",
        "_gathered",
        "_goes_on",
        "_holds",
        "_is_closing",
        "_is_paused",
        "_is_reading",
        "_listener",
        "_out",
        "_queue",
        "_queued_max",
        "_queued_size",
        "_rest",
        "_transport",
        "_turn_s",
        "_wakefulness",
        "info",
        "is_active",
        "silent_ms",
    )  # fmt: skip

    def __init__(self, listener: Listener) -> None:
        self.info: ConnectionInfo = listener.unknown_client
        self.is_active = True  #: something happened since the last sweep of the listener, which clears it
        self.silent_ms = 0  #: the sweep of the listener writes it
        self._listener = listener
        self._wakefulness = listener.wakefulness
        self._dispatcher: Dispatches = listener.dispatcher
        limits = listener.limits
        self._queued_max = limits.queued_max_requests
        self._buffer = ReceiveBuffer(limits.request_max_bytes, listener.read_area)
        self._transport: asyncio.Transport | None = None
        self._queue: list[Delayed | list[Buffer]] = []  #: answers in order; the first is a Delayed that waits
        self._queued_size = 0  #: bytes of answers in _queue
        self._out: list[Buffer] = []  #: chunks to be written at the end of this turn
        self._gathered = 0  #: bytes in _out
        self._rest: FileOutput | None = None  #: answers with slices of files that the client has not read; later answers queue here
        self._goes_on = False  #: `_go_on` is scheduled
        self._turn_s = 0.0  #: since when `_serve` runs, else 0: it writes, answers that complete meanwhile do not
        self._is_paused = False  #: the client does not take its answers; written by pause_writing, resume_writing, _send_rest, _send_on
        self._holds: list[Timer | Delayed] = []  #: what holds the client: quotas, a request that is worked on in slices, short memory
        self._is_reading = True
        self._is_closing = False

    # -- called by the event loop ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start reading, unless the listener refuses the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's TCP transport has the same methods and no common base
        host, port = client_address_of(transport)
        self.info = ConnectionInfo(self._listener.name, host, self._listener.security_protocol, port)
        self._transport.set_write_buffer_limits(high=HELD_SIZE)
        sasl = self._listener.sasl
        if sasl is not None:
            self._dispatcher = sasl.gate(self._listener.dispatcher, self)
            self._buffer.limit_frames(sasl.max_receive_size)
        if sasl is not None or self._listener.secured is not None:
            self._listener.login_memory.enter(self, Stage.CONNECTED)
        if not self._listener.admit(self):
            self.abort()
        self._buffer.exchange_read_area(self._listener.read_area)  # another connection may have kept the area of the constructor

    @property
    def own_host(self) -> str:
        """The address of this host that the client connected to."""
        return "unknown" if self._transport is None else str((self._transport.get_extra_info("sockname") or ("unknown",))[0])

    @property
    def channel(self) -> str:
        """Both addresses of the connection, `host:port-host:port`, for the log."""
        ends = [(self._transport.get_extra_info(each) if self._transport else None) or ("unknown", 0) for each in ("sockname", "peername")]
        return "-".join(f"{host}:{port}" for host, port, *_ in ends)

    def pass_gate(self, dispatcher: Dispatches) -> None:
        """Serve requests of any size by `dispatcher`: the client has logged in."""
        self._dispatcher = dispatcher
        self._listener.login_memory.forget(self)
        self._buffer.limit_frames(self._listener.limits.request_max_bytes)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  the reason does not matter
        """Cancel waiting requests, and release everything."""
        self._is_closing = True
        self._transport = None
        for answer in self._queue:
            if isinstance(answer, Delayed):
                answer.cancel()
        self._queue.clear()
        self._out.clear()
        if self._rest is not None:
            self._rest.close()
            self._rest = None
        for hold in self._holds:
            hold.cancel()
        self._holds.clear()
        self.info.closed()
        self._dispatcher = self._listener.dispatcher  # a gate refers to this connection
        self._listener.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  the buffer knows best
        """Return where the loop puts the next bytes."""
        return self._buffer.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Serve the requests in the `nbytes` that have arrived."""
        self._buffer.received(nbytes)
        self._serve()
        if self._buffer.settle():
            self._account()

    def _account(self) -> None:
        """Report that the memory of the connection differs from what is counted."""
        self._listener.request_memory.changed(self, self._listener.after)
        if self._dispatcher is not self._listener.dispatcher:
            self._listener.login_memory.holds(self, self._buffer.capacity)

    def eof_received(self) -> bool:
        """Close when the client sends no more, as Kafka does."""
        return False

    def pause_writing(self) -> None:
        """Hold the requests of a client that does not read."""
        self._is_paused = True
        self._hold()
        self._listener.answer_memory.changed(self)

    def resume_writing(self) -> None:
        """Continue at the end of this turn, since asyncio's transport must not be closed in this call."""
        self._is_paused = False
        self.is_active = True
        self._listener.at_end_of_turn(self._resume)

    def _resume(self) -> None:
        """Send the rest of the answers, then serve the held requests."""
        if self._transport is None or self._is_paused:
            return
        self._listener.answer_memory.changed(self)
        if self._rest is not None:
            self._send_rest()
        if not self._is_paused:
            self._serve()

    # -- serving ----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:  # noqa: C901, PLR0912  the hot path: each call of a function costs as much as several branches
        """Serve the frames in the buffer, until one is torn or the client is held."""
        began_s = self._turn_s = perf_counter()
        start = self._buffer.start
        info, queue = self.info, self._queue
        next_frame, dispatch = self._buffer.next_frame, self._dispatcher.dispatch
        try:
            for number in _TURN:
                if self._is_closing:
                    break
                if (queue or self._is_paused or self._holds) and self._is_held():
                    self._hold()
                    break
                frame = next_frame()
                if frame is None:
                    if not self._is_reading:
                        self._unhold()
                    break
                if queue:
                    self._step_aside()
                answer = dispatch(info, frame)
                self.is_active = True
                if queue or type(answer) is not list:
                    self._enqueue(answer)
                else:
                    self._gather(answer)
                if info.throttle_ms:
                    self._mute()
                if number & 1 and (number == _TURN_LAST or perf_counter() - began_s >= _TURN_S):  # every second request may be the last
                    self._hold()
                    self._go_on_later()
                    break
        except WireError as error:
            self._reject(error)
        finally:
            self._turn_s = 0.0
        if self._out:
            self._write()
        if self._is_closing:
            self._end_turn()
        if self._wakefulness.turn() - began_s > SLOW_S:
            self._found_slow(began_s, start)

    def _found_slow(self, began_s: float, start: int) -> None:
        """Report a slow turn, which started at `began_s` with the frame at `start`."""
        self._listener.watchdog.found(began_s, lambda: self._turn_since(start))

    def _turn_since(self, start: int) -> str:
        """Describe the requests served from the frame at `start` on, for the log."""
        frames = list(self._buffer.frames_since(start))
        if not frames:
            return f"the answers to {self.info.client_host}"
        largest = max(frames, key=len)
        request = f"{self._dispatcher.describe(largest)} at {self.info.client_host} ({len(largest):,} bytes)"
        return request if len(frames) == 1 else f"{len(frames)} requests, the largest {request},"

    def _go_on_later(self) -> None:
        if not self._goes_on:
            self._goes_on = True
            self._listener.at_end_of_turn(self._go_on)

    def _go_on(self) -> None:
        """Continue to serve after the turns of other connections."""
        self._goes_on = False
        if not self._is_closing and not self._is_held():
            self._serve()

    def _is_held(self) -> bool:
        return self._is_paused or bool(self._holds) or len(self._queue) >= self._queued_max or self._queued_size >= WRITE_HIGH_WATER

    def _enqueue(self, answer: Delayed | list[Buffer]) -> None:
        """Put an answer in its place in the order; write it at once if nothing waits before it."""
        if isinstance(answer, Delayed):
            self._queue.append(answer)
            if answer.keeps_frame and not answer.is_done:
                self._keep_frame_of(answer)
            else:
                answer.on_done(lambda: self._completed(answer))
        elif self._queue:
            self._queue.append(answer)
            self._count_queued(answer)
        else:
            self._gather(answer)

    def _count_queued(self, answer: list[Buffer]) -> None:
        self._queued_size += size_of(answer)
        if self._queued_size > HELD_SIZE:
            self._listener.answer_memory.changed(self)

    def _keep_frame_of(self, answer: Delayed) -> None:
        """Serve and read nothing until the request is done: it still uses its bytes in the buffer."""

        def is_over() -> None:
            self._holds.remove(answer)
            self._completed(answer)
            if self._buffer.frames_are_done():
                self._account()

        if self._buffer.keep_frames():
            self._listener.exchange_read_area()
        self._holds.append(answer)
        answer.on_done(is_over)

    def exchange_read_area(self, read_area: memoryview) -> None:
        """Use another shared read area. The listener calls this."""
        self._buffer.exchange_read_area(read_area)

    def _step_aside(self) -> None:
        """Make the last request answer now if it is a parked Fetch: another request arrived after it."""
        last = self._queue[-1]
        if isinstance(last, Delayed):
            last.step_aside()

    def _completed(self, answer: Delayed) -> None:
        """Send a Delayed that is answered. While it waits for earlier answers, its bytes count."""
        if answer.answer is not None:
            self._count_queued(answer.answer)
        if self.info.throttle_ms:
            self._mute()
        self._advance()

    def _advance(self) -> None:
        """Send the answers that are ready and in order, then serve held requests.

        Requests are served later, since the answer may become ready while another request is served.
        """
        queue = self._queue
        while queue:
            first = queue[0]
            if isinstance(first, Delayed):
                if not first.is_done:
                    break
                del queue[0]
                if first.answer is None:
                    self._end_with(first.error)
                    break
                self._queued_size -= size_of(first.answer)
                self._gather(first.answer)
            else:
                del queue[0]
                self._queued_size -= size_of(first)
                self._gather(first)
        if not self._turn_s:
            self._end_turn()
            if not self._is_reading and not self._is_closing and not self._is_held():
                self._go_on_later()

    def _gather(self, chunks: list[Buffer]) -> None:
        self._out += chunks
        for chunk in chunks:
            self._gathered += len(chunk)
        if self._gathered >= _WRITE_EVERY:
            self._write()

    def _end_turn(self) -> None:
        """Write the collected answers. Close a connection that is closing once nothing waits."""
        if self._out:
            self._write()
        if self._is_closing and not self._queue and self._rest is None and self._transport is not None:
            self._transport.close()

    def _write(self) -> None:
        out, size = self._out, self._gathered
        self._out, self._gathered = [], 0
        if self._transport is None:
            return
        if self._rest is not None:
            self._rest.add(out)
            self._listener.answer_memory.changed(self)
        elif len(out) == 1:
            self._transport.write(out[0])
        elif size <= _JOIN:
            self._transport.write(b"".join(out))
        else:
            self._write_large(self._transport, out)

    def _write_large(self, transport: asyncio.Transport, out: list[Buffer]) -> None:
        if any(isinstance(chunk, FileSlice) for chunk in cast("list[Buffer | FileSlice]", out)):
            transport.set_write_buffer_limits(high=0)
            self._rest = FileOutput(transport, out, self._listener.writable_sockets, self._listener.sender_threads, self._send_on)
            self._send_rest()
        else:
            transport.writelines(out)
            transport.set_write_buffer_limits(high=HELD_SIZE)  # pauses: writelines of asyncio does not in Python 3.12 and early 3.13

    def _send_rest(self) -> None:
        """Send answers with slices of files, as much as the client accepts now."""
        rest, transport = self._rest, self._transport
        if rest is None or transport is None:
            return
        try:
            is_sent = rest.send()
        except OSError as error:
            log.warning("closing the connection of %s: %s", self.info.client_host, str(error))  # its traceback refers to the slice
            self.abort()
            return
        if is_sent:
            self._rest = None
            if not transport.is_closing():
                transport.set_write_buffer_limits(high=HELD_SIZE)
            return
        if not self._is_paused and not rest.waits_for_socket:
            transport.set_write_buffer_limits(high=0)  # as in _write_large
        if not self._is_paused:
            self._is_paused = True
            self._hold()
            if not rest.waits_for_socket:
                self._listener.at_end_of_turn(self._send_on)

    def _send_on(self) -> None:
        """Continue to send: the socket takes bytes again, or other connections had their turn."""
        self._is_paused = False
        self.is_active = True
        self._resume()

    def _hold(self) -> None:
        if self._is_reading and self._transport is not None and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def refuse_in(self, delay_ms: int) -> None:
        """Serve nothing, and close after this time. The listener calls this for a new connection."""
        self._listener.after(delay_ms, self.abort)
        self.hold_for(delay_ms)

    def hold_for(self, delay_ms: int) -> None:
        """Serve nothing for this time. The listener calls this for a new connection."""
        self.info.throttle_ms = delay_ms
        self._mute()

    def _mute(self) -> None:
        """Serve no request of this client for the throttle time of its quotas."""
        throttle_ms, self.info.throttle_ms = self.info.throttle_ms, 0

        def is_over() -> None:
            self._holds.remove(timer)
            self.is_active = True
            if not self._turn_s and not self._is_held():
                self._serve()

        timer = self._listener.after(throttle_ms, is_over)
        self._holds.append(timer)
        self._hold()

    def _unhold(self) -> None:
        if not self._is_closing and self._transport is not None and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    # -- the end ----------------------------------------------------------------------------------------------------

    def _reject(self, error: WireError) -> None:
        """Log a warning about bytes that are not Kafka's protocol, and close after the answers that are due."""
        log.warning("closing the connection of %s on %s: %s", self.info.client_host, self.info.listener_name, error)
        self.close_after(error)

    def _end_with(self, error: WireError) -> None:
        """Close without answering the request that failed or later ones: the client would take their answers for its own."""
        for answer in self._queue:
            if isinstance(answer, Delayed):
                answer.cancel()
        self._queue.clear()
        self._queued_size = 0
        self.close_after(error)

    def close_after(self, error: WireError) -> None:  # noqa: ARG002  faults of the test kit send a part of an answer first
        """Close because a request failed with `error`."""
        self.close()

    def close(self) -> None:
        """Stop reading, and close when every request that was read is answered. A parked Fetch answers at once."""
        self._is_closing = True
        self._hold()
        self.answer_parked()
        if not self._turn_s:
            self._end_turn()

    def answer_parked(self) -> None:
        """Answer a parked Fetch with the available records."""
        for answer in list(self._queue):
            if isinstance(answer, Delayed):
                answer.step_aside()

    def leave_all(self) -> None:
        """Answer waiting requests, or close, because the broker switches to other data; run the callbacks of `when_closed`."""
        waiting = [answer for answer in self._queue if isinstance(answer, Delayed)]
        for answer in waiting:
            answer.step_aside()
        if not all(answer.is_done for answer in waiting):
            for answer in waiting:
                answer.cancel()
            self._queue.clear()
            self._queued_size = 0
            self.abort()
        self.info.closed()
        self.info.endings = None
        self.info.rights = None  # those of an authorizer that is gone

    def abort(self) -> None:
        """Close now, without sending the remaining answers."""
        self._is_closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer, so that it is not idle."""
        return bool(self._queue)

    def release_memory(self) -> None:
        """Free an unused buffer."""
        self._buffer.release()
        if self._buffer.counted != self._buffer.capacity:
            self._account()

    # -- called by AnswerMemory -------------------------------------------------------------------------------------

    @property
    def unsent_size(self) -> int:
        """Bytes in memory of answers that the client has not taken, or that wait for an earlier one."""
        size = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self._rest is not None:
            size += self._rest.memory_size
        answers = [answer.answer if isinstance(answer, Delayed) else answer for answer in self._queue] if self._queued_size else []
        return size + sum(memory_size_of(answer) for answer in answers if answer is not None)

    def close_for_unsent(self, size: int, total: int) -> None:
        """Close because the client does not take its answers."""
        log.warning(
            "closing the connection of %s on %s: it has not taken %s bytes of answers, and all connections together %s",
            self.info.client_host, self.info.listener_name, f"{size:,}", f"{total:,}",
        )  # fmt: skip
        self.abort()

    # -- called by RequestMemory ------------------------------------------------------------------------------------

    @property
    def buffer(self) -> ReceiveBuffer:
        """The bytes that have arrived and are not served yet."""
        return self._buffer

    @property
    def is_stopped_by_us(self) -> bool:
        """Whether the broker does not read because answers are not ready, or because of a quota."""
        is_full = len(self._queue) >= self._queued_max or self._queued_size >= WRITE_HIGH_WATER
        return is_full or any(hold is not _NO_MEMORY for hold in self._holds)

    def wait_for_memory(self) -> None:
        """Stop reading until `memory_is_there`."""
        if _NO_MEMORY not in self._holds:
            self._holds.append(_NO_MEMORY)
            self._hold()

    def memory_is_there(self) -> None:
        """Read again."""
        if _NO_MEMORY in self._holds:
            self._holds.remove(_NO_MEMORY)
            self._go_on_later()

    def close_for_memory(self, used: int, limit: int) -> None:
        """Close, because the rest of a request does not arrive."""
        log.warning(
            "closing the connection of %s on %s: %s bytes of an unfinished request made no progress for %d s, "
            "while requests use %s bytes of queued.max.request.bytes=%d",
            self.info.client_host, self.info.listener_name, f"{len(self._buffer):,}", PATIENCE, f"{used:,}", limit,
        )  # fmt: skip
        self.abort()


def size_of(chunks: list[Buffer]) -> int:
    """Return the bytes of an answer."""
    return sum(map(len, chunks))


def memory_size_of(chunks: list[Buffer]) -> int:
    """Return the bytes of an answer that are in memory, not in files."""
    return sum(len(chunk) for chunk in cast("list[Buffer | FileSlice]", chunks) if not isinstance(chunk, FileSlice))


def client_address_of(transport: asyncio.BaseTransport) -> tuple[str, int]:
    """Return the client's address and port."""
    peer = transport.get_extra_info("peername")
    return (str(peer[0]), int(peer[1])) if peer else ("unknown", 0)
