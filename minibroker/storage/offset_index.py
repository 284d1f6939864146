"""`.index`: the positions of batches in a segment.

Layout, big-endian, sorted, no header:

    uint32  relative offset   last offset of a batch, less the segment's base offset
    uint32  position          of the first byte of that batch in the .log file

Sparse: an entry is made for a batch when more than index.interval.bytes were written since the last one; the first batch never
has one, so position 0 marks the zeros of a preallocated file. Source: OffsetIndex of Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, NamedTuple

from minibroker.storage.index_file import IndexFile

_ENTRY = Struct(">II")
_unpack = _ENTRY.unpack_from


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
        """Add an entry; both grow."""
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
        """Yield all entries, for tools and tests."""
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
