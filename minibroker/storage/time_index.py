"""`.timeindex`: how far the timestamps of a segment have come.

Layout, big-endian, sorted, no header:

    int64   timestamp         the largest one in the segment so far
    uint32  relative offset   last offset of the batch that brought it, less the segment's base offset

An entry is tried whenever the offset index gets one, and made when the timestamp grew; the last entry, made when the segment
rolls or closes, is the segment's largest timestamp. Source: TimeIndex of Apache Kafka.
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
    """Timestamps to offsets."""

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    @property
    def room(self) -> int:
        """How many further entries there may be; where it is 0, only the slot for the last entry is left, and the segment rolls."""
        return self.max_count - 1 - len(self.loaded()) // 12

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if the timestamp grew."""
        if timestamp > self.last().timestamp:
            self.loaded().extend(_ENTRY.pack(timestamp, offset - self.base_offset))

    def lookup(self, timestamp: int) -> TimestampEntry:
        """The last entry at or below `timestamp`; (-1, base offset) when there is none."""
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
        """The last entry; (-1, base offset) when there is none."""
        return self._entry_before(len(self.loaded()) // 12)

    def entries(self) -> list[TimestampEntry]:
        """All of them, for tools and tests."""
        return [TimestampEntry(timestamp, self.base_offset + offset) for timestamp, offset in _ENTRY.iter_unpack(self.loaded())]

    def _entry_before(self, count: int) -> TimestampEntry:
        if count == 0:
            return TimestampEntry(NO_TIMESTAMP, self.base_offset)
        timestamp, offset = _unpack(self.loaded(), (count - 1) * 12)
        return TimestampEntry(timestamp, self.base_offset + offset)
