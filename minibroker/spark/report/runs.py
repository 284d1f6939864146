"""Summaries of ranges of offsets, joined from left to right, so that parts can be counted separately.

An offset has no record because a marker ends a transaction there (control), its transaction was aborted
(aborted), or no batch has it any longer (absent), for example after compaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import NamedTuple

CELLS = 240  #: the most of a range, as many as a picture can show
NO_TIMESTAMP = -1
NO_BUCKET = -(1 << 62)  #: for records without a timestamp, which old message formats allow


class Run(NamedTuple):
    """Offsets without a record: first_offset <= offset < end_offset."""

    first_offset: int
    end_offset: int
    control: int = 0
    aborted: int = 0

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end_offset - self.first_offset

    @property
    def absent(self) -> int:
        """The offsets that no batch has."""
        return self.size - self.control - self.aborted

    def followed_by(self, other: Run) -> Run:
        """Return both runs and the offsets between, which no batch has."""
        return Run(self.first_offset, other.end_offset, self.control + other.control, self.aborted + other.aborted)


@dataclass(frozen=True, slots=True)
class Latest:
    """The largest timestamp of a record, in epoch ms, and the first offset that has it."""

    timestamp: int = NO_TIMESTAMP
    offset: int = -1


@dataclass(frozen=True, slots=True)
class RangeSummary:
    """The content of the offsets [start_offset, end_offset) of a partition.

    Attributes:
        record_count, key_bytes, value_bytes, header_bytes: of records; bytes of keys, values, and names and values of headers.
        batch_count, batch_bytes: of batches that start in the range, as stored.
        codecs: batches by codec number.
        control_count, aborted_count: offsets of markers and of aborted transactions.
        leading, trailing: offsets before the first and after the last record; without records, all are leading.
        gap_count: runs between records.
        gaps: the longest of these runs.
        buckets: (records, bytes) by the number of the day or hour since 1970.
        record_cells, aborted_cells: counts by cell; the range is cut into cells of equal size.
        first_timestamp: the smallest timestamp of a record; NO_TIMESTAMP without one.
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
        """Bytes of keys, values and headers."""
        return self.key_bytes + self.value_bytes + self.header_bytes

    @property
    def absent_count(self) -> int:
        """The offsets that no batch has."""
        return self.end_offset - self.start_offset - self.record_count - self.control_count - self.aborted_count

    def all_gaps(self) -> tuple[int, tuple[Run, ...]]:
        """Return the number of runs without records, including both ends, and the longest runs."""
        ends = [run for run in (self.leading, self.trailing) if run.size]
        return self.gap_count + len(ends), (*ends, *self.gaps)


def cell_size(offset_count: int) -> int:
    """Return the offsets per cell of a range of `offset_count` offsets."""
    return max(1, -(-offset_count // CELLS))


def empty(offset: int) -> RangeSummary:
    """Return the summary of an empty range."""
    nothing = Run(offset, offset)
    return RangeSummary(offset, offset, nothing, nothing)


def joined(summaries: Iterable[RangeSummary], start_offset: int, end_offset: int, *, gap_limit: int) -> RangeSummary:
    """Join the summaries of parts, in any order, to that of [start_offset, end_offset); no batch has offsets between parts."""
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
    """Return the `limit` longest runs, of equal ones the earlier, ordered by offset."""
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
    """Encode a summary for its way from an executor to the driver."""
    return json.dumps(asdict(summary), separators=(",", ":")).encode()


def decode(data: bytes) -> RangeSummary:
    """Decode a summary."""
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
