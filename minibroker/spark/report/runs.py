"""Offsets without a record, and the summaries of ranges, which are joined from left to right: what is counted apart is counted once.

Why an offset has no record: a marker ends a transaction there (control), its transaction was aborted (aborted), or no batch has it any
more (absent), which is what compaction leaves behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import NamedTuple

CELLS = 240  #: of a range, at most: what a picture can show
NO_TIMESTAMP = -1
NO_BUCKET = -(1 << 62)  #: of records without a timestamp, which old message formats allow


class Run(NamedTuple):
    """Offsets without a record: first_offset <= offset < end_offset."""

    first_offset: int
    end_offset: int
    control: int = 0
    aborted: int = 0

    @property
    def size(self) -> int:
        """Offsets in it."""
        return self.end_offset - self.first_offset

    @property
    def absent(self) -> int:
        """Those that no batch has."""
        return self.size - self.control - self.aborted

    def followed_by(self, other: Run) -> Run:
        """Both and what lies between, which no batch has."""
        return Run(self.first_offset, other.end_offset, self.control + other.control, self.aborted + other.aborted)


@dataclass(frozen=True, slots=True)
class Latest:
    """The largest timestamp of a record, in epoch ms, and the first offset that has it."""

    timestamp: int = NO_TIMESTAMP
    offset: int = -1


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """What the offsets [start_offset, end_offset) of a partition hold.

    Attributes:
        record_count, key_bytes, value_bytes, header_bytes: of records; bytes of keys, values, and names and values of headers.
        batch_count, batch_bytes: of batches that begin in the range, as they are stored.
        codecs: batches by the number of their codec.
        control_count, aborted_count: offsets of markers and of aborted transactions.
        leading, trailing: offsets before the first and behind the last record; without any record, all are leading.
        gap_count: runs between records.
        gaps: the longest of them.
        buckets: (records, bytes) by number of the day, or of the hour, since 1970.
        record_cells, aborted_cells: counts by cell, of a range that is cut into cells of equal size.
        first_timestamp: the smallest one of a record; NO_TIMESTAMP without any.
    """

    start_offset: int
    end_offset: int
    leading: Run
    trailing: Run
    record_count: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    header_bytes: int = 0
    batch_count: int = 0
    batch_bytes: int = 0
    codecs: Mapping[int, int] = field(default_factory=dict)
    control_count: int = 0
    aborted_count: int = 0
    gap_count: int = 0
    gaps: tuple[Run, ...] = ()
    buckets: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    record_cells: tuple[int, ...] = ()
    aborted_cells: tuple[int, ...] = ()
    first_timestamp: int = NO_TIMESTAMP
    latest: Latest = field(default_factory=Latest)

    @property
    def bytes(self) -> int:
        """Of keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes

    @property
    def absent_count(self) -> int:
        """Offsets that no batch has."""
        return self.end_offset - self.start_offset - self.record_count - self.control_count - self.aborted_count

    def all_gaps(self) -> tuple[int, tuple[Run, ...]]:
        """How many runs without records there are, those at both ends too, and the longest."""
        ends = [run for run in (self.leading, self.trailing) if run.size]
        return self.gap_count + len(ends), (*ends, *self.gaps)


def cell_size(offset_count: int) -> int:
    """Offsets in a cell of a range of so many."""
    return max(1, -(-offset_count // CELLS))


def empty(offset: int) -> RangeSummary:
    """Of no offset at all."""
    nothing = Run(offset, offset)
    return RangeSummary(offset, offset, nothing, nothing)


def joined(summaries: Iterable[RangeSummary], start_offset: int, end_offset: int, *, gap_limit: int) -> RangeSummary:
    """One summary of [start_offset, end_offset) from those of its parts, in whatever order; offsets between parts are in no batch."""
    parts = sorted((each for each in summaries if each.start_offset < each.end_offset), key=lambda each: each.start_offset)
    whole = reduce(lambda left, right: _join(left, right, gap_limit), [*parts, empty(end_offset)], empty(start_offset))
    no_cells = (0,) * -(-(end_offset - start_offset) // cell_size(end_offset - start_offset))  # no part has a batch of the range
    return replace(
        whole,
        gaps=tuple(sorted(whole.gaps)),
        record_cells=whole.record_cells or no_cells,
        aborted_cells=whole.aborted_cells or no_cells,
    )


def longest(runs: Iterable[Run], limit: int) -> tuple[Run, ...]:
    """The `limit` longest, earlier ones first among equals, in order of offsets."""
    kept = sorted(runs, key=lambda run: (-run.size, run.first_offset))[:limit]
    return tuple(sorted(kept))


def _join(left: RangeSummary, right: RangeSummary, gap_limit: int) -> RangeSummary:
    leading, trailing, between = left.leading, right.trailing, Run(0, 0)
    if not left.record_count:
        leading = left.leading.followed_by(right.leading)
    elif right.record_count:
        between = left.trailing.followed_by(right.leading)
    if not right.record_count:
        trailing = left.trailing.followed_by(right.leading) if left.record_count else Run(right.end_offset, right.end_offset)
    gaps = (*left.gaps, *([between] if between.size else []), *right.gaps)
    return RangeSummary(
        start_offset=left.start_offset,
        end_offset=right.end_offset,
        leading=leading,
        trailing=trailing,
        record_count=left.record_count + right.record_count,
        key_bytes=left.key_bytes + right.key_bytes,
        value_bytes=left.value_bytes + right.value_bytes,
        header_bytes=left.header_bytes + right.header_bytes,
        batch_count=left.batch_count + right.batch_count,
        batch_bytes=left.batch_bytes + right.batch_bytes,
        codecs={codec: left.codecs.get(codec, 0) + right.codecs.get(codec, 0) for codec in {*left.codecs, *right.codecs}},
        control_count=left.control_count + right.control_count,
        aborted_count=left.aborted_count + right.aborted_count,
        gap_count=left.gap_count + right.gap_count + bool(between.size),
        gaps=longest(gaps, gap_limit),
        buckets=_sum(left.buckets, right.buckets),
        record_cells=_sum_cells(left.record_cells, right.record_cells),
        aborted_cells=_sum_cells(left.aborted_cells, right.aborted_cells),
        first_timestamp=min((each.first_timestamp for each in (left, right) if each.first_timestamp != NO_TIMESTAMP), default=NO_TIMESTAMP),
        latest=right.latest if right.latest.timestamp > left.latest.timestamp else left.latest,
    )


def _sum(left: Mapping[int, tuple[int, int]], right: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    found = dict(left)
    for bucket, (records, size) in right.items():
        before = found.get(bucket, (0, 0))
        found[bucket] = (before[0] + records, before[1] + size)
    return found


def _sum_cells(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    if not left or not right:
        return left or right
    return tuple(one + other for one, other in zip(left, right, strict=True))


def encode(summary: RangeSummary) -> bytes:
    """For its way from an executor to the driver."""
    return json.dumps(asdict(summary), separators=(",", ":")).encode()


def decode(data: bytes) -> RangeSummary:
    """The reverse."""
    found = json.loads(data)
    return RangeSummary(
        **{
            **found,
            "leading": Run(*found["leading"]),
            "trailing": Run(*found["trailing"]),
            "gaps": tuple(Run(*each) for each in found["gaps"]),
            "codecs": {int(codec): count for codec, count in found["codecs"].items()},
            "buckets": {int(bucket): tuple(counts) for bucket, counts in found["buckets"].items()},
            "record_cells": tuple(found["record_cells"]),
            "aborted_cells": tuple(found["aborted_cells"]),
            "latest": Latest(**found["latest"]),
        }
    )
