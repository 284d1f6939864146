"""Count the content of a range of offsets, one piece after the other, all records of a piece at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from minibroker.spark.report.runs import NO_BUCKET, NO_TIMESTAMP, Latest, RangeSummary, Run, longest

NARROW = 4096  #: days, or hours
KEPT_GAPS = 4  #: gaps are kept up to this multiple of gap_limit, then only the longest remain


class Records(NamedTuple):
    """Arrays with one item per record, ordered by offset."""

    offsets: np.ndarray
    timestamps: np.ndarray  #: epoch ms
    key_sizes: np.ndarray  #: bytes, like the next two
    value_sizes: np.ndarray
    header_sizes: np.ndarray  #: of names and values


class Piece(NamedTuple):
    """The content of some batches, ordered by offset; start_offset <= all offsets < end_offset.

    The `hidden` arrays have one item per batch without records for this reader, the last three one per batch.
    """

    start_offset: int
    end_offset: int
    records: Records
    hidden_starts: np.ndarray  #: first offsets
    hidden_stops: np.ndarray  #: the offsets after the last ones
    hidden_is_control: np.ndarray  #: True for markers; else an aborted transaction
    base_offsets: np.ndarray
    batch_sizes: np.ndarray
    codecs: np.ndarray


@dataclass(frozen=True, slots=True)
class CountLimits:
    """The range that is counted, and the resolution.

    Attributes:
        range_start, range_end: offsets of the whole range; a counter counts a part of it.
        bucket_ms: a day or an hour.
        gap_limit: how many of the longest gaps to keep.
        cell_size: offsets in a cell.
    """

    range_start: int
    range_end: int
    bucket_ms: int
    gap_limit: int
    cell_size: int

    @property
    def cell_count(self) -> int:
        """The cells of the whole range."""
        return -(-(self.range_end - self.range_start) // self.cell_size)


@dataclass
class Counter:
    """Counts the pieces of a part of a range.

    Without `start_offset` and `end_offset` the part is what the batches cover. With them, a batch across a bound is
    counted in the part in which it starts, and its records in the parts of their offsets.
    """

    limits: CountLimits
    start_offset: int | None = None
    end_offset: int | None = None
    _counts: dict[str, int] = field(default_factory=dict)
    _buckets: dict[int, list[int]] = field(default_factory=dict)
    _codecs: dict[int, int] = field(default_factory=dict)
    _gaps: list[Run] = field(default_factory=list)
    _leading: Run | None = None
    _open: Run | None = None  # offsets without a record since the last one, or since the start
    _first_timestamp: int = NO_TIMESTAMP
    _latest: Latest = field(default_factory=Latest)
    _start: int | None = None

    def __post_init__(self) -> None:
        self._record_cells = np.zeros(self.limits.cell_count, np.int64)
        self._aborted_cells = np.zeros(self.limits.cell_count, np.int64)
        if self.start_offset is not None:
            self._begin(self.start_offset)

    def add(self, piece: Piece) -> None:
        """Count a piece; pieces come ordered by offset."""
        start = max(piece.start_offset, self.limits.range_start if self.start_offset is None else self.start_offset)
        stop = min(piece.end_offset, self.limits.range_end if self.end_offset is None else self.end_offset)
        if start >= stop:
            return
        if self._open is None:
            self._begin(start)
        self._count_batches(piece)
        inside = (piece.records.offsets >= start) & (piece.records.offsets < stop)
        records = piece.records if inside.all() else Records(*(column[inside] for column in piece.records))
        hidden_starts, hidden_stops = np.clip(piece.hidden_starts, start, stop), np.clip(piece.hidden_stops, start, stop)
        self._count_records(records)
        self._count_hidden(hidden_starts, hidden_stops, piece.hidden_is_control)
        self._note_gaps(records.offsets, hidden_starts, hidden_stops - hidden_starts, piece.hidden_is_control, stop)

    def summary(self) -> RangeSummary:
        """Return what was counted."""
        limits = self.limits
        start = limits.range_start if self._start is None else self._start
        rest = self._open or Run(start, start)
        if self.end_offset is not None:
            rest = rest._replace(end_offset=self.end_offset)
        end = rest.end_offset
        return RangeSummary(
            start_offset=start,
            end_offset=end,
            leading=rest if self._leading is None else self._leading,
            trailing=Run(end, end) if self._leading is None else rest,
            codecs=self._codecs,
            gaps=longest(self._gaps, limits.gap_limit),
            buckets={bucket: (records, size) for bucket, (records, size) in self._buckets.items()},
            record_cells=tuple(self._record_cells.tolist()),
            aborted_cells=tuple(self._aborted_cells.tolist()),
            first_timestamp=self._first_timestamp,
            latest=self._latest,
            **self._counts,
        )

    def _begin(self, offset: int) -> None:
        self._start = offset
        self._open = Run(offset, offset)

    def _more(self, **counts: int) -> None:
        for name, count in counts.items():
            self._counts[name] = self._counts.get(name, 0) + int(count)

    def _count_batches(self, piece: Piece) -> None:
        """Count batches that start in this part; one that starts before the range counts at the range's start."""
        begins = np.maximum(piece.base_offsets, self.limits.range_start)
        mine = begins < (self.limits.range_end if self.end_offset is None else self.end_offset)
        if self.start_offset is not None:
            mine &= begins >= self.start_offset
        self._more(batch_count=int(np.count_nonzero(mine)), batch_bytes=piece.batch_sizes[mine].sum())
        for codec, count in enumerate(np.bincount(piece.codecs[mine]).tolist()):
            if count:
                self._codecs[codec] = self._codecs.get(codec, 0) + count

    def _count_records(self, records: Records) -> None:
        if not len(records.offsets):
            return
        self._more(
            record_count=len(records.offsets),
            key_bytes=records.key_sizes.sum(),
            value_bytes=records.value_sizes.sum(),
            header_bytes=records.header_sizes.sum(),
        )
        sizes = records.key_sizes + records.value_sizes + records.header_sizes
        timestamps = records.timestamps
        has_time = timestamps != NO_TIMESTAMP
        self._count_buckets(np.where(has_time, timestamps // self.limits.bucket_ms, NO_BUCKET), sizes)
        self._record_cells += self._cells(records.offsets)
        if has_time.any():
            first = int(timestamps[has_time].min())
            self._first_timestamp = first if self._first_timestamp == NO_TIMESTAMP else min(first, self._first_timestamp)
            index = int(timestamps.argmax())
            if timestamps[index] > self._latest.timestamp:
                self._latest = Latest(int(timestamps[index]), int(records.offsets[index]))

    def _count_buckets(self, buckets: np.ndarray, sizes: np.ndarray) -> None:
        low, high = int(buckets.min()), int(buckets.max())
        if high - low < NARROW:  # true for nearly all topics
            found, places = np.arange(low, high + 1), buckets - low
        else:
            found, places = np.unique(buckets, return_inverse=True)
        records = np.bincount(places, minlength=len(found))
        totals = np.zeros(len(found), np.int64)
        np.add.at(totals, places, sizes)
        for index in np.flatnonzero(records).tolist():
            counts = self._buckets.setdefault(int(found[index]), [0, 0])
            counts[0] += int(records[index])
            counts[1] += int(totals[index])

    def _cells(self, offsets: np.ndarray) -> np.ndarray:
        limits = self.limits
        counts: np.ndarray = np.bincount((offsets - limits.range_start) // limits.cell_size, minlength=limits.cell_count)
        return counts

    def _count_hidden(self, starts: np.ndarray, stops: np.ndarray, is_control: np.ndarray) -> None:
        sizes = stops - starts
        self._more(control_count=sizes[is_control].sum(), aborted_count=sizes[~is_control].sum())
        aborted = np.flatnonzero(~is_control & (sizes > 0))
        if aborted.size:
            offsets = [np.arange(start, stop) for start, stop in zip(starts[aborted], stops[aborted], strict=True)]
            self._aborted_cells += self._cells(np.concatenate(offsets))

    def _note_gaps(self, offsets: np.ndarray, starts: np.ndarray, sizes: np.ndarray, is_control: np.ndarray, stop: int) -> None:
        """Note gaps: gap number i is before record number i, and the one after the last record stays open."""
        before = self._open or Run(stop, stop)
        count = len(offsets)
        owners = np.searchsorted(offsets, starts)
        control, aborted = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
        np.add.at(control, owners[is_control], sizes[is_control])
        np.add.at(aborted, owners[~is_control], sizes[~is_control])
        control[0] += before.control
        aborted[0] += before.aborted
        firsts = np.concatenate([[before.first_offset], offsets + 1])
        stops = np.concatenate([offsets, [stop]])
        self._open = Run(int(firsts[-1]), stop, int(control[-1]), int(aborted[-1]))
        closed = np.flatnonzero(firsts[:-1] < stops[:-1])
        if count and self._leading is None:
            self._leading = Run(int(firsts[0]), int(stops[0]), int(control[0]), int(aborted[0]))
            closed = closed[closed > 0]
        self._more(gap_count=len(closed))
        limit = self.limits.gap_limit
        if len(closed) > limit:  # the longest, earlier ones first among equals
            closed = closed[np.argsort(-(stops[closed] - firsts[closed]), kind="stable")[:limit]]
        self._gaps += [Run(int(firsts[i]), int(stops[i]), int(control[i]), int(aborted[i])) for i in closed]
        if len(self._gaps) > KEPT_GAPS * limit:
            self._gaps = list(longest(self._gaps, limit))
