"""Bytes of one connection that have arrived, cut into frames in place.

    |  parsed  |  unparsed: frames, the last perhaps torn  |  space  |
    0          start                                        end       capacity

A frame is `int32 size` and `size` bytes. A connection has no buffer until a frame is torn: it reads into the area that all connections
share. `settle` moves what was not served in that call to the connection's own buffer, which is read into from then on. This buffer grows
only when it is full of bytes that have arrived: the claim of a size field takes no memory. Frames are memoryviews. They are valid until
`settle`, or longer after `keep_frames`.

When READ_AHEAD_SIZE bytes of a larger frame have arrived, it gets anonymous memory of its whole size. The system provides a page when
bytes are written to it. So nothing is copied while the frame grows, and it uses as much memory as has arrived. The place is opened step
by step, and only the opened part counts as memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from minibroker.wire.header import frame_size

INITIAL_SIZE: Final = 4096
READ_AHEAD_SIZE: Final = 256 * 1024  #: a buffer grows to this size because reads fill it, and further only for a frame that needs it
KEPT_SIZE: Final = 8 * 1024 * 1024  #: a larger buffer is not kept for the next frame
_STEP: Final = 64 * 1024  #: bytes by which the place of a large frame is opened

_SIZE: Final = Struct(">i")
_EMPTY: Final = memoryview(bytearray())


def new_read_area() -> memoryview:
    """Create the area that the connections of one loop share; only the connection that is being read uses it."""
    return memoryview(bytearray(READ_AHEAD_SIZE))


class ReceiveBuffer:
    """The incoming bytes of a connection."""

    __slots__ = ("_buffer", "_end", "_is_filled", "_max_frame_size", "_place", "_read_area", "counted", "is_kept", "keeps_empty", "start")

    def __init__(self, max_frame_size: int, read_area: memoryview) -> None:
        self._max_frame_size = max_frame_size  #: socket.request.max.bytes
        self._read_area = read_area
        self._buffer = _EMPTY
        self._place: memoryview | None = None  #: of a large frame; `_buffer` is its opened part
        self.counted = 0  #: bytes that RequestMemory counts; RequestMemory writes it
        self.keeps_empty = True  #: memory is kept for the next frame; RequestMemory writes it
        self.is_kept = False  #: frames are used after `settle`; written by keep_frames, frames_are_done
        self.start = 0  #: where the next frame starts
        self._end = 0
        self._is_filled = False  #: the last read left no space, so more was probably waiting

    def limit_frames(self, max_size: int) -> None:
        """Refuse larger frames from now on."""
        self._max_frame_size = max_size

    @property
    def capacity(self) -> int:
        """Bytes of memory that only this connection uses."""
        return 0 if self._buffer is self._read_area else len(self._buffer)

    def __len__(self) -> int:
        return self._end - self.start

    def space(self) -> memoryview:
        """Return where the next bytes may be put; never empty."""
        if self._buffer is _EMPTY:
            self._buffer = self._read_area
            return self._buffer
        if self.start:
            if self.start == self._end:
                self.start = self._end = 0
            elif self._needs_more_than_space():
                self._move_to_front()
        capacity = len(self._buffer)
        if self._end == capacity or (self._is_filled and capacity < READ_AHEAD_SIZE):
            self._grow(2 * capacity)
        return self._buffer[self._end :]

    def received(self, count: int) -> None:
        """Take note of `count` bytes that were put into `space`."""
        self._end += count
        self._is_filled = self._end == len(self._buffer)

    def settle(self) -> bool:
        """Leave the shared area to other connections: move what was not served to memory of this connection.

        Returns:
            Whether `capacity` is not what is `counted`.
        """
        if self._buffer is not self._read_area:
            if not self.is_kept:
                self._give_back()
            return self.capacity != self.counted
        if self.start == self._end:
            self._buffer = _EMPTY
            self.start = self._end = 0
            return False
        self._grow(max(INITIAL_SIZE, 2 * (self._end - self.start)))
        return True

    def keep_frames(self) -> bool:
        """Keep what was read where it is, so that frames stay valid after `settle`, until more is read.

        Returns whether that is the shared area, which all connections must then exchange for another one.
        """
        self.is_kept = True
        is_shared = self._buffer is self._read_area
        if is_shared:
            self._read_area = _EMPTY[:]
        return is_shared

    def frames_are_done(self) -> bool:
        """Release kept frames, which are no longer used. Returns the same as `settle`."""
        self.is_kept = False
        return self.settle()

    def exchange_read_area(self, read_area: memoryview) -> None:
        """Read into another shared area from now on."""
        if self._buffer is self._read_area:  # a read that brought no bytes
            self._buffer = _EMPTY
        self._read_area = read_area

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame without its size; None until more has arrived.

        Raises:
            FrameSizeError: the size is not positive or above the limit.
        """
        start = self.start
        if self._end - start < 4:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not 0 < size <= self._max_frame_size:
            frame_size(self._buffer[: self._end], start, self._max_frame_size)  # raises an error that describes the bytes
        start += 4
        if self._end - start < size:
            return None
        self.start = start + size
        return self._buffer[start : start + size]

    def frames_since(self, position: int) -> Iterator[memoryview]:
        """Return the frames that `next_frame` has returned from `position` on. Call it only before `settle`."""
        while position < self.start:
            (size,) = _SIZE.unpack_from(self._buffer, position)
            position += 4 + size
            yield self._buffer[position - size : position]

    def release(self) -> None:
        """Free the memory, unless a part of a frame is in it or frames are kept."""
        if self.start == self._end and not self.is_kept:
            self._shrink(0)

    def drop(self) -> None:
        """Free the memory: the connection is closed."""
        self.start = self._end = 0
        self._shrink(0)

    def _needs_more_than_space(self) -> bool:
        """Whether the torn frame at the end cannot be completed where it is."""
        if self._end - self.start < 4:
            return len(self._buffer) - self._end < INITIAL_SIZE
        size: int = _SIZE.unpack_from(self._buffer, self.start)[0]
        return self.start + 4 + size > len(self._buffer)

    def _move_to_front(self) -> None:
        unparsed = self._end - self.start
        self._buffer[:unparsed] = self._buffer[self.start : self._end]
        self.start, self._end = 0, unparsed

    def _grow(self, capacity: int) -> None:
        place = self._place
        if place is not None and len(self._buffer) < len(place):
            self._buffer = place[: len(self._buffer) + _STEP]
            return
        unparsed = self._end - self.start
        if capacity > READ_AHEAD_SIZE and self._is_torn_large():
            size: int = _SIZE.unpack_from(self._buffer, self.start)[0]
            place = _new_place(4 + size + READ_AHEAD_SIZE)
            if place is not None:
                self._move_to(place[: unparsed + _STEP], place)
                return
        self._move_to(memoryview(bytearray(min(capacity, self._max_frame_size + 4 + READ_AHEAD_SIZE))))

    def _is_torn_large(self) -> bool:
        """Whether a frame of more than READ_AHEAD_SIZE is to be completed."""
        if self._end - self.start < 4:
            return False
        size: int = _SIZE.unpack_from(self._buffer, self.start)[0]
        return READ_AHEAD_SIZE < 4 + size <= 4 + self._max_frame_size

    def _give_back(self) -> None:
        """Free memory that is too large for its content."""
        unparsed = self._end - self.start
        if not unparsed:
            if not self.keeps_empty or len(self._buffer) > KEPT_SIZE:
                self._shrink(0)
        elif len(self._buffer) > KEPT_SIZE and unparsed < READ_AHEAD_SIZE and not self._is_torn_large():
            self._shrink(unparsed)

    def _shrink(self, unparsed: int) -> None:
        if unparsed:
            self._move_to(memoryview(bytearray(max(INITIAL_SIZE, 2 * unparsed))))
        else:
            self._buffer = _EMPTY
            self._place = None
            self.start = self._end = 0

    def _move_to(self, buffer: memoryview, place: memoryview | None = None) -> None:
        unparsed = self._end - self.start
        buffer[:unparsed] = self._buffer[self.start : self._end]
        self._buffer, self._place = buffer, place
        self.start, self._end = 0, unparsed


def _new_place(size: int) -> memoryview | None:
    """Return `size` bytes of memory that cost nothing until they are written; None if the system has no such memory."""
    from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap  # noqa: PLC0415  most brokers get no large frame

    try:
        return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))
    except (OSError, ValueError):
        return None  # no address space is left: grow by copies
