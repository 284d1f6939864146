"""The segments of one log by base offset, and when a log starts a new one (LogSegment.shouldRoll of Apache Kafka).

size      the batch would make the segment larger than segment.bytes
offsets   the batch's last offset is too far from the base offset for an index entry
index     segment.index.bytes allows no further entry in one of the two indexes
age       the batch's largest timestamp is later than that of the segment's first batch by more than segment.ms minus the segment's
          jitter; without timestamps, the time since the segment's creation counts

max.compaction.lag.ms applies instead of segment.ms if the log is compacted and it is shorter.

Kafka checks this only at appends. Here a segment also rolls when its age is over while no client writes (`is_overdue`, called by the
retention check). Otherwise the last records of a quiet log would never be compacted.

Invariant: there is always a segment, and the last one is the active one.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from minibroker.clock import Clock
from minibroker.log.log_config import LogConfig
from minibroker.records.batch import RecordBatch
from minibroker.storage.files import Files
from minibroker.storage.indexes import NO_TIMESTAMP
from minibroker.storage.segment import MAX_RELATIVE_OFFSET, Segment

NEVER: Final = 2**63  #: a timestamp that no segment reaches


class Segments:
    """A sorted list of segments with look-ups by offset and by timestamp."""

    __slots__ = ("_base_offsets", "_closed_size", "_reached", "_removed_size", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._base_offsets = [segment.base_offset for segment in segments]
        #: the largest timestamp up to and including each segment, for as many segments as look-ups needed, without the active one
        self._reached: list[int] = []
        self._closed_size: int | None = None  #: bytes of all except the active one; None: not counted yet
        self.active = segments[-1]
        self._removed_size = -self.size  #: bytes of removed segments minus the bytes present when the log was opened

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def add(self, segment: Segment) -> None:
        """Add a new active segment."""
        self._segments.append(segment)
        self._base_offsets.append(segment.base_offset)
        self._closed_size = None
        self.active = segment

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that may hold `offset`, and all after it."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0) :]

    def from_place(self, index: int) -> list[Segment]:
        """Return the segment at a place, and all after it."""
        return self._segments[index:]

    def nth(self, index: int) -> Segment:
        """Return a segment by its place; 0 is the oldest."""
        return self._segments[index]

    def floor(self, offset: int) -> Segment:
        """Return the segment that may hold `offset`."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, segment: Segment) -> Segment | None:
        """Return the next segment, if there is one."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def first_reaching(self, timestamp_ms: int) -> int | None:
        """Return the place of the first segment with a timestamp of `timestamp_ms` or later; None if there is none."""
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
        """Return the largest timestamp of all segments; -1 if no record has one."""
        active = self.active.largest_timestamp().timestamp
        self.first_reaching(NEVER)
        return max(self._reached[-1], active) if self._reached else active

    def take_below(self, offset: int, limit: int) -> list[Segment]:
        """Remove and return at most `limit` of the oldest segments whose records are all below `offset`; never the active one."""
        count = 0
        while count < limit and count + 1 < len(self._segments) and self._base_offsets[count + 1] <= offset:
            count += 1
        taken = self._segments[:count]
        del self._segments[:count], self._base_offsets[:count]
        if count:
            self._removed_size += sum(segment.size for segment in taken)
            self._reached.clear()
            self._closed_size = None
        return taken

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Replace adjacent segments, which do not include the active one, by `segment`."""
        self._removed_size += sum(each.size for each in replaced) - segment.size
        first = self._segments.index(replaced[0])
        self._segments[first : first + len(replaced)] = [segment]
        self._base_offsets[first : first + len(replaced)] = [segment.base_offset]
        del self._reached[first:]
        self._closed_size = None

    @property
    def appended_size(self) -> int:
        """Bytes that were appended since the log was opened, however many of them are gone."""
        return self.size + self._removed_size

    @property
    def directory(self) -> str:
        """The folder of all segments."""
        return self.active.directory

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        if self._closed_size is None:
            self._closed_size = sum(segment.size for segment in self._segments[:-1])
        return self._closed_size + self.active.size


def must_roll(segment: Segment, config: LogConfig, batch: RecordBatch, last_offset: int, clock: Clock) -> bool:
    """Whether a batch that will end with `last_offset` needs a new segment; `segment` is not empty."""
    if (
        segment.size > config.segment_bytes - batch.size
        or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
        or (segment.index_room <= 0 and segment.count_index_room() <= 0)
    ):
        return True
    first_timestamp = segment.first_timestamp
    if first_timestamp is None:
        first_timestamp = segment.first_batch_timestamp()
    waited_ms = batch.max_timestamp - first_timestamp if first_timestamp >= 0 else clock.now_ms() - segment.created_ms
    if waited_ms > config.segment_ms - segment.roll_jitter_ms:
        return True
    return config.max_compaction_lag_ms < config.segment_ms and waited_ms > config.max_segment_ms - segment.roll_jitter_ms


def is_overdue(segment: Segment, config: LogConfig, now_ms: int, files: Files) -> bool:
    """Whether the active segment is old enough to roll without an append: since its creation, or its last write before a restart."""
    limit_ms = config.max_segment_ms - segment.roll_jitter_ms
    if not segment.size or now_ms - limit_ms <= 0:
        return False
    return now_ms - min(segment.created_ms, files.modified_ms(segment.log.path)) > limit_ms


def random_jitter_ms(config: LogConfig) -> int:
    """Return how much earlier a new segment rolls, so that many partitions do not roll together."""
    return random.randrange(min(config.segment_jitter_ms, config.max_segment_ms) + 1)  # noqa: S311  spreads work, no secret
