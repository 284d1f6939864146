"""The segments of one log, by base offset. Invariant: there is always one, and the last one is the one that grows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from minibroker.storage.segment import Segment
from minibroker.storage.time_index import NO_TIMESTAMP

NEVER = 2**63  #: a timestamp that no segment reaches


class Segments:
    """A sorted list of segments that finds by offset, and by timestamp."""

    __slots__ = ("_base_offsets", "_closed_size", "_reached", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        #: the largest timestamp up to and with each segment: of the first ones, as far as somebody asked, and never of the active one
        self._reached: list[int] = []
        self._closed_size: int | None = None  #: bytes of all but the active one; None: to be counted
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def add(self, segment: Segment) -> None:
        """A new one that grows from now on."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self._closed_size = None
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

    def first_reaching(self, timestamp_ms: int) -> int | None:
        """The place of the first segment with a timestamp that is not below `timestamp_ms`; None when there is none."""
        reached = self._reached
        if not reached or reached[-1] < timestamp_ms:
            last = reached[-1] if reached else NO_TIMESTAMP
            for segment in self._segments[len(reached) : -1]:
                last = max(last, segment.largest_timestamp().timestamp)
                reached.append(last)
                if last >= timestamp_ms:
                    return len(reached) - 1
            return None if self.active.largest_timestamp().timestamp < timestamp_ms else len(self._segments) - 1
        return bisect_left(reached, timestamp_ms)

    def largest_timestamp(self) -> int:
        """Of all segments; -1 when there is none."""
        active = self.active.largest_timestamp().timestamp
        self.first_reaching(NEVER)
        return max(self._reached[-1], active) if self._reached else active

    def take_below(self, offset: int, limit: int) -> list[Segment]:
        """Take out the segments whose records all lie below `offset`, the oldest `limit` of them; never the one that grows."""
        count = 0
        while count < limit and count + 1 < len(self._segments) and self._base_offsets[count + 1] <= offset:
            count += 1
        taken = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        if count:
            self._reached.clear()
            self._closed_size = None
        return taken

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """`segment` takes the place of neighbours, none of which is the one that grows."""
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [segment]
        self._base_offsets[first : first + len(replaced)] = [segment.base_offset]
        del self._reached[first:]
        self._closed_size = None

    @property
    def directory(self) -> str:
        """Where they all lie."""
        return self.active.directory

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        if self._closed_size is None:
            self._closed_size = sum(segment.size for segment in self._segments[:-1])
        return self._closed_size + self.active.size
