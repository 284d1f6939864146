"""The segments of one log, by base offset. Invariant: there is always one, and the last one is the one that grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from minibroker.storage.segment import Segment


class Segments:
    """A sorted list of segments that finds by offset."""

    __slots__ = ("_base_offsets", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def add(self, segment: Segment) -> None:
        """A new one that grows from now on."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self.active = segment

    def from_offset(self, offset: int) -> list[Segment]:
        """The segment that may hold `offset`, and all after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def nth(self, index: int) -> Segment:
        """By place: 0 is the oldest."""
        return self._segments[index]

    def floor(self, offset: int) -> Segment:
        """The segment that may hold `offset`."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """The next one."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def take_below(self, offset: int) -> list[Segment]:
        """Take out the segments whose records all lie below `offset`; never the one that grows."""
        count = 0
        while count + 1 < len(self._segments) and self._base_offsets[count + 1] <= offset:
            count += 1
        taken = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        return taken

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """`segment` takes the place of neighbours, none of which is the one that grows."""
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [segment]
        self._base_offsets[first : first + len(replaced)] = [segment.base_offset]

    @property
    def directory(self) -> str:
        """Where they all lie."""
        return self.active.directory

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.size for segment in self._segments)
