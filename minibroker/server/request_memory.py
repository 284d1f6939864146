"""Memory of requests that have not arrived completely, over all connections: `queued.max.request.bytes`.

A connection has its own memory only while a part of a request waits in it (receive_buffer.py). Only bytes that have arrived count, not
the size that a frame claims.

    enough   every connection is read
    short    more than the limit is in use. Empty buffers are given back. Large buffers that wait for the rest of a request are no longer
             read, except the oldest one (none, while a large request is served in slices: it frees memory when it is done).
             So requests that are sent at the same time arrive one after the other, and memory exceeds the limit by one request.
             Buffers of up to SMALL_SIZE are always read, in small pieces.
             A buffer that got less than PROGRESS_SIZE in each of PATIENCE seconds is closed with its connection. Seconds in
             which the oldest one made progress do not count, nor those in which the connection waits for the broker. So stalled
             clients block other clients for at most that long.
    enough   again when a part of the limit (1/8) is free

Apache Kafka reserves the size that a frame claims, and stops reading all connections until there is room. Unfinished requests can keep it
for ever. By default it has no limit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from minibroker.clock import Timer
from minibroker.server.receive_buffer import INITIAL_SIZE, ReceiveBuffer

log = logging.getLogger(__name__)

SMALL_SIZE: Final = 32 * 1024  #: bytes of a buffer that is always read
SHORT_READ_SIZE: Final = 16 * 1024  #: bytes that are read at a time while memory is short
PROGRESS_SIZE: Final = 1024 * 1024  #: bytes that an unfinished request must get in a second while memory is short
PATIENCE: Final = 10  #: seconds without progress, while memory is short, after which a connection is closed
_SECOND_MS: Final = 1000


class RequestHolder(Protocol):
    """A connection, as RequestMemory uses it."""

    @property
    def buffer(self) -> ReceiveBuffer:
        """The bytes that have arrived."""

    @property
    def is_stopped_by_us(self) -> bool:
        """Whether it is not read because answers are not ready, or because of a quota."""

    def wait_for_memory(self) -> None:
        """Stop reading. May be called twice."""

    def memory_is_there(self) -> None:
        """Read again. Does nothing if it is being read."""

    def close_for_memory(self, used: int, limit: int) -> None:
        """Close the connection, because its request does not arrive."""


class _Progress:
    """The size of a buffer at the last check, and for how many checks it has not grown enough."""

    __slots__ = ("size", "strikes")

    def __init__(self) -> None:
        self.size = -PROGRESS_SIZE  # the first check does not count
        self.strikes = 0


class RequestMemory:
    """Counts the memory of unfinished requests, over all listeners of a broker."""

    def __init__(self, limit: int = -1) -> None:
        """`limit`: bytes; negative: no limit."""
        self.limit = limit
        self.used = 0  #: bytes of all buffers of connections
        self.is_short = False
        self._holders: dict[RequestHolder, _Progress] = {}  #: connections with more than the smallest buffer, oldest first
        self._first: RequestHolder | None = None  #: while memory is short, the one with a large buffer that is read
        self.on_shortage: list[Callable[[], None]] = []  #: called at the end of a turn after `is_short` has changed
        self._is_looking = False  #: a timer runs
        self._is_draining = False  #: a large request has arrived since the last check

    def changed(self, holder: RequestHolder, after: Callable[[int, Callable[[], None]], Timer]) -> None:
        """Count a buffer whose size has changed. `after` is the clock of its listener."""
        self._count(holder)
        if self.is_short:
            self._judge(holder)
        elif 0 <= self.limit < self.used:
            self._release_empty()
            if self.used > self.limit:
                self._become_short()
                after(0, self._announce)
                if not self._is_looking:
                    self._is_looking = True
                    after(_SECOND_MS, lambda: self._look(after))

    def forget(self, holder: RequestHolder) -> None:
        """Forget a closed connection."""
        buffer = holder.buffer
        buffer.drop()
        if buffer.counted:
            self._count(holder)
            if self.is_short:
                self._judge(holder)

    def _count(self, holder: RequestHolder) -> None:
        buffer = holder.buffer
        capacity = buffer.capacity
        self.used += capacity - buffer.counted
        buffer.counted = capacity
        if capacity <= INITIAL_SIZE:
            self._holders.pop(holder, None)
        elif holder not in self._holders:
            self._holders[holder] = _Progress()
        buffer.keeps_empty = not self.is_short

    def _release_empty(self) -> None:
        for holder in list(self._holders):
            holder.buffer.release()
            self._count(holder)

    def _become_short(self) -> None:
        self.is_short = True
        for holder in self._holders:
            holder.buffer.keeps_empty = False
            if _is_unfinished(holder.buffer):
                holder.wait_for_memory()
        self._choose_first()

    def _become_enough(self) -> None:
        self.is_short = False
        self._first = None
        for holder, progress in self._holders.items():
            holder.buffer.keeps_empty = True
            progress.strikes = 0
            holder.memory_is_there()

    def _judge(self, holder: RequestHolder) -> None:
        """Decide, while memory is short, whether a connection is read whose buffer has changed."""
        if self.used <= self.limit - self.limit // 8:
            holder.memory_is_there()
            self._become_enough()
        elif not _is_unfinished(holder.buffer):
            holder.memory_is_there()
            if self._first is None or self._first is holder:
                self._is_draining = True
                self._choose_first()
        elif holder is not self._first:
            holder.wait_for_memory()

    def _choose_first(self) -> None:
        self._first = None
        if not any(holder.buffer.is_kept for holder in self._holders):
            self._first = next((holder for holder in self._holders if _is_unfinished(holder.buffer)), None)
        if self._first is not None:
            self._first.memory_is_there()

    def _look(self, after: Callable[[int, Callable[[], None]], Timer]) -> None:
        """Close connections whose requests do not arrive. Runs once in a second."""
        if self.is_short:
            self._release_empty()
            self._close(self._late(), self.used, after)
        if self.is_short:
            after(_SECOND_MS, lambda: self._look(after))
        else:
            self._is_looking = False
            self._announce()

    def _close(self, late: list[RequestHolder], used: int, after: Callable[[int, Callable[[], None]], Timer]) -> None:
        """Close one of `late` in each turn, since freeing 100 MB takes tens of milliseconds."""
        while late:
            holder = late.pop(0)
            if holder in self._holders:
                holder.close_for_memory(used, self.limit)
                self.forget(holder)
                after(0, lambda: self._close(late, used, after))
                return

    def _announce(self) -> None:
        for callback in self.on_shortage:
            callback()

    def _late(self) -> list[RequestHolder]:
        """Note which requests made progress; return those that made none for too long."""
        is_working = any(holder.buffer.is_kept for holder in self._holders)
        is_draining, self._is_draining = self._is_draining or is_working, False
        for holder, progress in self._holders.items():
            size = len(holder.buffer)
            is_late = progress.size <= size < progress.size + PROGRESS_SIZE
            progress.size = size
            if not is_late or holder.is_stopped_by_us:
                progress.strikes = 0
                is_draining = is_draining or (holder is self._first and not is_late)
            elif holder is self._first or not is_draining:  # the first one is the oldest, so the others come after it
                progress.strikes += 1
        return [holder for holder, progress in self._holders.items() if progress.strikes >= PATIENCE]


def _is_unfinished(buffer: ReceiveBuffer) -> bool:
    """Whether a large buffer waits for the rest of a request."""
    return buffer.capacity > SMALL_SIZE and len(buffer) > 0 and not buffer.is_kept
