"""`.timeindex`: the largest timestamp up to an offset of a segment.

Layout, big-endian, sorted, no header:

    int64   timestamp         the largest one in the segment so far
    uint32  relative offset   last offset of the batch that has it, less the segment's base offset

Whenever the offset index gets an entry, this one gets one as well if the largest timestamp grew. The last entry, written when the segment
rolls or closes, has the segment's largest timestamp. Source: TimeIndex of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from minibroker.storage.index_file import IndexFile

NO_TIMESTAMP = -1

_ENTRY = Struct(">qI")
_unpack = _ENTRY.unpack_from


class TimestampEntry(NamedTuple):
    """A timestamp and the last offset of its batch."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """Finds offsets by timestamp."""

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    @property
    def room(self) -> int:
        """The number of further entries; at 0 only the slot for the last entry is left, and the segment rolls."""
        return self.max_count - 1 - len(self.loaded()) // 12

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp grew."""
        if timestamp > self.last().timestamp:
            self.loaded().extend(_ENTRY.pack(timestamp, offset - self.base_offset))

    def lookup(self, timestamp: int) -> TimestampEntry:
        """Return the last entry at or below `timestamp`; (-1, base offset) if there is none."""
        data = self.loaded()
        low, high = 0, len(data) // 12
        while low < high:
            middle = (low + high) // 2
            if _unpack(data, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self._entry_before(low)

    def last(self) -> TimestampEntry:
        """The last entry; (-1, base offset) if there is none."""
        return self._entry_before(len(self.loaded()) // 12)

    def entries(self) -> list[TimestampEntry]:
        """Yield all entries, for tools and tests."""
        return [TimestampEntry(timestamp, self.base_offset + offset) for timestamp, offset in _ENTRY.iter_unpack(self.loaded())]

    def _entry_before(self, count: int) -> TimestampEntry:
        if count == 0:
            return TimestampEntry(NO_TIMESTAMP, self.base_offset)
        timestamp, offset = _unpack(self.loaded(), (count - 1) * 12)
        return TimestampEntry(timestamp, self.base_offset + offset)
