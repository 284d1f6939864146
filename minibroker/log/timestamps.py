"""Look-ups by time: the first segment whose largest timestamp reaches the target, its time index, its offset index, then a walk.

Earlier segments are not read: for each segment the largest timestamp up to it is known, which never
decreases. The header of a batch has the batch's largest timestamp; only the batch with the answer
has its records read (records/time_walk.py). Timestamps need not ascend: the answer is the first
record in offset order. Source: UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.1.

A look-up raises LongLookup at a batch that takes more than a few milliseconds. The records of that batch are walked in steps, without the
segment, which may be deleted by then. The look-up then starts again and uses the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Protocol

from minibroker.errors import InvalidRecord
from minibroker.log.failures import LogFailures
from minibroker.log.results import TimestampOffset
from minibroker.log.segments import Segments
from minibroker.records import time_walk
from minibroker.records.any_format import decode_records
from minibroker.records.batch import MAGIC_POSITION, MAGIC_V2
from minibroker.records.steps import LongBatch, Steps, finished
from minibroker.storage.batch_scan import BatchHeader
from minibroker.storage.segment import Segment

BEGINNING_SIZE = 4096  #: bytes of a batch that hold most answers


class LongLookup(LongBatch):
    """The record may be in a long batch: `steps` find it there."""

    def __init__(self, steps: Steps[tuple[int, int] | None], header: BatchHeader) -> None:
        super().__init__()
        self.steps = steps
        self.last_offset = header.last_offset
        self.leader_epoch = header.leader_epoch


Known = dict[int, TimestampOffset | None]  #: by last offset of a long batch: the record that was found in it


class TimedLog(Protocol):
    """A log, as TimestampLookup uses it."""

    segments: Segments
    log_start_offset: int


class TimestampLookup:
    """Finds records of a log by their timestamps."""

    __slots__ = ("_failures", "_log")

    def __init__(self, log: TimedLog, failures: LogFailures) -> None:
        self._log = log
        self._failures = failures

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is `timestamp_ms` or later; the caller compares its offset with the reader's end.

        Raises:
            LongBatch: that takes more than a few milliseconds; the caller has to run `offset_for_timestamp_in_steps`.
            KafkaStorageError: the file system failed.
        """
        if self._failures.offline_cause is not None:
            raise self._failures.offline_error()
        try:
            return _first_at_or_after(self._log.segments, timestamp_ms, self._log.log_start_offset)
        except OSError as error:
            raise self._failures.failed(error) from error

    def offset_for_timestamp_in_steps(self, timestamp_ms: int) -> Steps[TimestampOffset | None]:
        """Return the result of `offset_for_timestamp` in steps (records/steps.py)."""
        start_offset = self._log.log_start_offset
        while True:
            try:
                with self._failures.watched():
                    return _first_at_or_after(self._log.segments, timestamp_ms, start_offset)
            except LongLookup as long:
                found = yield from long.steps
                if found is not None:
                    return TimestampOffset(*found, long.leader_epoch)
                start_offset = max(long.last_offset + 1, self._log.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the record with the largest timestamp; None if no record has a timestamp. Raises as `offset_for_timestamp`."""
        if self._failures.offline_cause is not None:
            raise self._failures.offline_error()
        try:
            return _largest(self._log.segments, self._log.log_start_offset)
        except OSError as error:
            raise self._failures.failed(error) from error

    def max_timestamp_offset_in_steps(self) -> Steps[TimestampOffset | None]:
        """Return the result of `max_timestamp_offset` in steps."""
        known: Known = {}
        while True:
            try:
                with self._failures.watched():
                    return _largest(self._log.segments, self._log.log_start_offset, known)
            except LongLookup as long:
                found = yield from long.steps
                known[long.last_offset] = None if found is None else TimestampOffset(*found, long.leader_epoch)


def _first_at_or_after(segments: Segments, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record at or above `start_offset` whose timestamp is `timestamp_ms` or later."""
    place = segments.first_reaching(timestamp_ms)
    if place is None:
        return None
    for segment in segments.from_place(place):
        if segment.largest_timestamp().timestamp >= timestamp_ms:
            found = _first_in_segment(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _first_in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    for header in segment.headers_from_timestamp(timestamp_ms, start_offset):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = _first_at(segment, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _first_at(segment: Segment, header: BatchHeader, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """Return the first record of one batch that `_first_at_or_after` looks for."""
    beginning = segment.bytes_of(header, BEGINNING_SIZE)
    if beginning[MAGIC_POSITION] < MAGIC_V2:
        for record in decode_records(segment.batch_at(header)):
            if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None
    try:
        found = time_walk.first_at_or_after(beginning, timestamp_ms, start_offset)
    except (IndexError, LongBatch):
        data = segment.bytes_of(header)
        try:
            found = time_walk.first_at_or_after(data, timestamp_ms, start_offset)
        except LongBatch:
            raise LongLookup(time_walk.first_in_steps(data, timestamp_ms, start_offset), header) from None
        except IndexError:
            raise InvalidRecord(f"the records of the batch at offset {header.base_offset} continue after its end") from None
    return None if found is None else TimestampOffset(*found, header.leader_epoch)


def _largest(segments: Segments, start_offset: int, known: Known | None = None) -> TimestampOffset | None:
    """Return the record with the largest timestamp at or above `start_offset`; of several, the first in the first segment that has it.

    Kafka also returns records that were deleted while their segment still exists. Clients cannot read those.
    """
    place = segments.first_reaching(segments.largest_timestamp())
    if place is None:
        return None
    best = segments.nth(place)
    timestamp, last_offset = best.largest_timestamp()
    if timestamp < 0:
        return None
    header = best.find(last_offset)
    if header is not None and last_offset >= start_offset:
        try:
            found = _first_at(best, header, timestamp, start_offset)
        except LongLookup:
            found = None  # its steps would only find out whether a record has exactly this timestamp
        if found is not None:
            return found
    return _largest_above(segments, start_offset, known or {})


def _largest_above(segments: Segments, start_offset: int, known: Known) -> TimestampOffset | None:
    """Return the result of `_largest` after compaction, or after records were deleted in a segment whose time index still has them.

    The largest timestamp in a batch is at most that of its header. So batches are read in
    descending order of the headers' timestamps, until none can be better. That is usually one or
    two: a header is wrong only if records of its batch are gone.
    """
    best: TimestampOffset | None = None
    already_read: set[int] = set()
    while True:
        least = -1 if best is None else best.timestamp
        next_best: tuple[Segment, BatchHeader] | None = None
        for segment in segments.from_offset(start_offset):
            for header in _latest_headers(segment, start_offset, already_read):
                if header.max_timestamp > least and header.last_offset not in already_read:
                    least, next_best = header.max_timestamp, (segment, header)
        if next_best is None:
            return best
        header = next_best[1]
        already_read.add(header.last_offset)
        found = known[header.last_offset] if header.last_offset in known else _largest_in(*next_best, start_offset)
        if found is not None and found.timestamp >= 0 and (best is None or _is_better(found, best)):
            best = found


def _is_better(found: TimestampOffset, best: TimestampOffset) -> bool:
    return found.timestamp > best.timestamp or (found.timestamp == best.timestamp and found.offset < best.offset)


def _latest_headers(segment: Segment, start_offset: int, already_read: set[int]) -> Iterable[BatchHeader]:
    """Return headers that include the one with the largest timestamp at or above `start_offset`, without those already read."""
    if segment.base_offset >= start_offset:
        timestamp, last_offset = segment.largest_timestamp()
        header = segment.find(last_offset) if timestamp >= 0 else None
        if header is None:
            return ()
        if header.last_offset not in already_read:
            return (header,)
    return segment.headers_from(start_offset)


def _largest_in(segment: Segment, header: BatchHeader, start_offset: int) -> TimestampOffset | None:
    data = segment.bytes_of(header)
    found: tuple[int, int] | None
    if data[MAGIC_POSITION] < MAGIC_V2:
        records = (record for record in decode_records(segment.batch_at(header)) if record.offset >= start_offset)
        found = max(((record.timestamp, record.offset) for record in records), key=itemgetter(0), default=None)
    elif header.size > BEGINNING_SIZE:
        raise LongLookup(time_walk.largest_in_steps(data, start_offset), header)
    else:
        found = finished(time_walk.largest_in_steps(data, start_offset))
    return None if found is None else TimestampOffset(*found, header.leader_epoch)
