"""The two sparse indexes of a segment: sorted arrays of fixed-size entries, with the same bytes in memory and on disk.

Entries of an open segment are kept in memory and written by `save` (when the segment rolls, is flushed or is closed): a crash
loses nothing, because recovery rebuilds the indexes of every segment from the recovery point on. Apache Kafka maps index files
into memory and preallocates them (10 MB), so a file may end in zeros, which are dropped.

A file may also be missing or hold garbage. Reading it all to check would cost more than the index saves. So an entry is used only after a
comparison with its batch (storage/segment.py). `is_damaged` reports damage that shows without reading entries.

`.index`: the positions of batches in a segment.

Layout, big-endian, sorted, no header:

    uint32  relative offset   last offset of a batch, less the segment's base offset
    uint32  position          of the first byte of that batch in the .log file

Sparse: a batch gets an entry when more than index.interval.bytes were written since the last one; the first batch never
has one, so position 0 marks the zeros of a preallocated file. A larger interval than INTERVAL_MAX has the effect of INTERVAL_MAX: a look-up
walks over all headers up to the next entry, and a client may set the interval. Source: OffsetIndex of Apache Kafka.

`.timeindex`: the largest timestamp up to an offset of a segment.

Layout, big-endian, sorted, no header:

    int64   timestamp         the largest one in the segment so far
    uint32  relative offset   last offset of the batch that has it, less the segment's base offset

Whenever the offset index gets an entry, this one gets one as well if the largest timestamp grew. The last entry, written when the segment
rolls or closes, has the segment's largest timestamp. Source: TimeIndex of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final, NamedTuple

from minibroker.storage.files import APPEND, Files, read_preallocated, replace_file, write_all

REWRITE: Final = -1
INTERVAL_MAX: Final = 256 * 1024  #: bytes of log between two entries


class IndexFile:
    """Entries sorted by their first field. `path` may change while the folder is renamed."""

    ENTRY: ClassVar[Struct]

    __slots__ = ("_data", "_files", "_saved_size", "base_offset", "is_damaged", "max_bytes", "path")

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int, *, is_new: bool = False) -> None:
        self._files = files
        self._data: bytearray | None = bytearray() if is_new else None  #: None: not read yet
        self._saved_size = REWRITE if is_new else 0  #: bytes of _data that are certainly in the file; REWRITE: none
        self.is_damaged = False  #: the file was missing, or not a whole number of entries; known after `loaded`
        self.path = path
        self.base_offset = base_offset
        self.max_bytes = max_bytes

    @property
    def count(self) -> int:
        """The number of entries."""
        return len(self.loaded()) // self.ENTRY.size

    @property
    def max_count(self) -> int:
        """The number of entries that segment.index.bytes allows."""
        return self.max_bytes // self.ENTRY.size

    @property
    def in_memory(self) -> bool:
        """Whether the file was read already."""
        return self._data is not None

    def loaded(self) -> bytearray:
        """Return the bytes of the entries; reads the file at the first call."""
        if self._data is None:
            try:
                data, file_size = read_preallocated(self._files, self.path)
            except FileNotFoundError:
                data = bytearray()
                self._saved_size, self.is_damaged = REWRITE, True
            else:
                size = len(data.rstrip(b"\0"))
                size += -size % self.ENTRY.size  # zeros at the end of the last entry belong to it
                self.is_damaged = size > file_size or file_size % self.ENTRY.size != 0
                data += bytes(max(min(size, file_size) - len(data), 0))
                del data[size if size <= file_size else size - self.ENTRY.size :]
                self._saved_size = file_size if len(data) == file_size else REWRITE
            self._data = data
        return self._data

    def reset(self) -> None:
        """Drop all entries, before they are rebuilt."""
        self._data = bytearray()
        self._saved_size, self.is_damaged = REWRITE, False

    def save(self) -> None:
        """Write entries that are not in the file yet, without syncing them."""
        data = self._data
        if data is None or len(data) == self._saved_size:
            return
        saved_size, self._saved_size = self._saved_size, REWRITE  # if the write fails, the next save writes everything
        if saved_size == REWRITE:
            replace_file(self._files, self.path, data, sync=False)
        else:
            descriptor = self._files.handles.open_path(self.path, APPEND)
            try:
                write_all(self._files, descriptor, data[saved_size:])
            finally:
                self._files.close(descriptor)
        self._saved_size = len(data)

    def unload(self) -> None:
        """Free the memory of entries that can be read again."""
        if self._data is not None and self._saved_size == len(self._data):
            self._data = None

    def keep(self, count: int) -> None:
        """Drop all entries but the first `count`."""
        data = self.loaded()
        if len(data) > count * self.ENTRY.size:
            del data[count * self.ENTRY.size :]
            self._saved_size = REWRITE


_ENTRY: Final = Struct(">II")
_unpack: Final = _ENTRY.unpack_from


class OffsetPosition(NamedTuple):
    """The last offset of a batch and the position of its first byte."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Finds positions by offset, and offsets by position."""

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    @property
    def room(self) -> int:
        """The number of further entries that segment.index.bytes allows; at 0 the segment rolls."""
        return self.max_count - len(self.loaded()) // 8

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Offsets and positions ascend."""
        self.loaded().extend(_ENTRY.pack(offset - self.base_offset, position))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below `offset`; (base offset, 0) if there is none."""
        return self._entry_before(self._count_up_to(offset - self.base_offset, 0))

    def lookup_position(self, position: int) -> OffsetPosition:
        """Return the last entry whose batch starts at or below `position`; (base offset, 0) if there is none."""
        return self._entry_before(self._count_up_to(position, 1))

    def last(self) -> OffsetPosition:
        """The last entry; (base offset, 0) if there is none."""
        return self._entry_before(self.count)

    def entries(self) -> list[OffsetPosition]:
        """Return all entries, for tools and tests."""
        return [OffsetPosition(self.base_offset + offset, position) for offset, position in _ENTRY.iter_unpack(self.loaded())]

    def _count_up_to(self, target: int, field: int) -> int:
        data = self.loaded()
        low, high = 0, len(data) // 8
        while low < high:
            middle = (low + high) // 2
            if _unpack(data, middle * 8)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    def _entry_before(self, count: int) -> OffsetPosition:
        if count == 0:
            return OffsetPosition(self.base_offset, 0)
        offset, position = _unpack(self.loaded(), (count - 1) * 8)
        return OffsetPosition(self.base_offset + offset, position)


NO_TIMESTAMP: Final = -1

_TIME_ENTRY: Final = Struct(">qI")
_unpack_time: Final = _TIME_ENTRY.unpack_from


class TimestampEntry(NamedTuple):
    """A timestamp and the last offset of its batch."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """Finds offsets by timestamp."""

    ENTRY: ClassVar[Struct] = _TIME_ENTRY

    __slots__ = ()

    @property
    def room(self) -> int:
        """The number of further entries; at 0 only the slot for the last entry is left, and the segment rolls."""
        return self.max_count - 1 - len(self.loaded()) // 12

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp grew."""
        if timestamp > self.last().timestamp:
            self.loaded().extend(_TIME_ENTRY.pack(timestamp, offset - self.base_offset))

    def lookup(self, timestamp: int) -> TimestampEntry:
        """Return the last entry at or below `timestamp`; (-1, base offset) if there is none."""
        data = self.loaded()
        low, high = 0, len(data) // 12
        while low < high:
            middle = (low + high) // 2
            if _unpack_time(data, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self._entry_before(low)

    def last(self) -> TimestampEntry:
        """The last entry; (-1, base offset) if there is none."""
        return self._entry_before(len(self.loaded()) // 12)

    def entries(self) -> list[TimestampEntry]:
        """Return all entries, for tools and tests."""
        return [TimestampEntry(timestamp, self.base_offset + offset) for timestamp, offset in _TIME_ENTRY.iter_unpack(self.loaded())]

    def _entry_before(self, count: int) -> TimestampEntry:
        if count == 0:
            return TimestampEntry(NO_TIMESTAMP, self.base_offset)
        timestamp, offset = _unpack_time(self.loaded(), (count - 1) * 12)
        return TimestampEntry(timestamp, self.base_offset + offset)
