"""Look-ups by time: the first segment whose largest timestamp reaches the target, its time index, its offset index, then a walk.

Earlier segments are not read: for each segment the largest timestamp up to it is known, which never
decreases. The header of a batch has the batch's largest timestamp; only the batch with the answer
has its records read (records/time_walk.py). Timestamps need not ascend: the answer is the first
record in offset order. Source: UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.1.

A look-up by time raises LongLookup at a batch that takes more than a few milliseconds. The records of that batch are walked in steps,
without the segment, which may be deleted by then. The look-up then starts again after that batch. It also raises LongLookup, and then
starts again, after HEADERS_AT_ONCE headers. That many follow the index entry if the records that it leads to were deleted, or if the
index has few entries: index.interval.bytes is large, or the segment comes from Apache Kafka before 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Final, Protocol

from minibroker.errors import InvalidRecord
from minibroker.log.failures import LogFailures
from minibroker.log.results import TimestampOffset
from minibroker.log.segments import Segments
from minibroker.records import time_walk
from minibroker.records.any_format import decode_records, read_batch
from minibroker.records.batch import MAGIC_POSITION, MAGIC_V2
from minibroker.records.steps import LongBatch, Steps, finished
from minibroker.storage.batch_scan import BatchHeader
from minibroker.storage.segment import Segment

BEGINNING_SIZE: Final = 4096  #: bytes of a batch that hold most answers
HEADERS_AT_ONCE: Final = 512  #: headers of batches that one turn looks at, in 4 ms at most
SEGMENT_COST: Final = 8  #: looking at one header of another segment takes as long as so many headers of one segment


class LongLookup(LongBatch):
    """The record may be in a long batch: `steps` find it there."""

    def __init__(self, steps: Steps[tuple[int, int] | None], header: BatchHeader) -> None:
        super().__init__()
        self.steps = steps
        self.last_offset = header.last_offset
        self.leader_epoch = header.leader_epoch


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
        """Return the record with the largest timestamp; None if no record has a timestamp.

        Of several, it returns the first in the first segment that has it. Kafka also returns records that were deleted while their
        segment still exists. Clients cannot read those.

        Raises:
            LongBatch: that takes more than a few milliseconds; the caller has to run `max_timestamp_offset_in_steps`.
            KafkaStorageError: the file system failed.
        """
        if self._failures.offline_cause is not None:
            raise self._failures.offline_error()
        try:
            next(self.max_timestamp_offset_in_steps())
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        raise LongBatch

    def max_timestamp_offset_in_steps(self) -> Steps[TimestampOffset | None]:
        """Return the result of `max_timestamp_offset` in steps.

        The largest timestamp in a batch is at most that of its header. If the record that the time index names is gone, batches are
        read in descending order of the headers' timestamps, until none can be better. That is usually one or two: a header is wrong
        only if records of its batch are gone, by compaction or by DeleteRecords.
        """
        with self._failures.watched():
            best = _largest_by_index(self._log)
        if best is not None:
            return best
        already_read: set[int] = set()
        while True:
            latest: BatchHeader | None = None
            least = -1 if best is None else best.timestamp
            offset: int | None = self._log.log_start_offset
            while offset is not None:
                with self._failures.watched():
                    header, offset = _latest_header(self._log, offset, least, already_read)
                if header is not None:
                    latest, least = header, header.max_timestamp
                if offset is not None:
                    yield None
            if latest is None:
                return best
            already_read.add(latest.last_offset)
            found = yield from self._largest_in(latest)
            if found is not None and found.timestamp >= 0 and (best is None or _is_better(found, best)):
                best = found

    def _largest_in(self, header: BatchHeader) -> Steps[TimestampOffset | None]:
        """Return the record with the largest timestamp in one batch, which may be gone since its header was read."""
        start_offset = self._log.log_start_offset
        with self._failures.watched():
            segment = self._log.segments.floor(header.last_offset)
            present = segment.find(header.last_offset)
            if present is None or present.last_offset != header.last_offset:
                return None
            data = segment.bytes_of(present)
        found: tuple[int, int] | None
        if data[MAGIC_POSITION] < MAGIC_V2:
            records = [each for each in decode_records(read_batch(data)) if each.offset >= start_offset]
            found = max(((each.timestamp, each.offset) for each in records), key=itemgetter(0), default=None)
        elif header.size > BEGINNING_SIZE:
            found = yield from time_walk.largest_in_steps(data, start_offset)
        else:
            found = finished(time_walk.largest_in_steps(data, start_offset))
        return None if found is None else TimestampOffset(*found, header.leader_epoch)


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
    """Return the first record in one segment that `_first_at_or_after` looks for.

    Each turn passes the headers between the index entry and `start_offset` again. It looks at no fewer headers than it passed, so that all
    turns together take time in proportion to the headers.
    """
    passed = looked_at = 0
    for header in segment.headers_from_timestamp(timestamp_ms, start_offset):
        if header.last_offset < start_offset:
            passed += 1
            continue
        if header.max_timestamp >= timestamp_ms:
            found = _first_at(segment, header, timestamp_ms, start_offset)
            if found is not None:
                return found
        looked_at += 1
        if looked_at >= HEADERS_AT_ONCE and looked_at >= passed:
            raise LongLookup(_pause(), header)
    return None


def _pause() -> Steps[tuple[int, int] | None]:
    yield None
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


def _largest_by_index(log: TimedLog) -> TimestampOffset | None:
    """Return the record that the time index names; None if there is none or it is gone, or if it is late in a long batch."""
    segments = log.segments
    place = segments.first_reaching(segments.largest_timestamp())
    if place is None:
        return None
    segment = segments.nth(place)
    timestamp, last_offset = segment.largest_timestamp()
    if timestamp < 0 or last_offset < log.log_start_offset:
        return None
    header = segment.find(last_offset)
    try:
        return None if header is None else _first_at(segment, header, timestamp, log.log_start_offset)
    except LongLookup:
        return None  # its steps would only find out whether a record has exactly this timestamp


def _latest_header(log: TimedLog, offset: int, least: int, already_read: set[int]) -> tuple[BatchHeader | None, int | None]:
    """Look at some headers from `offset` on.

    Returns:
        The first one with the largest timestamp above `least` that is not `already_read`, if there is one; and the offset at which to
        continue, None after the last header.
    """
    offset = max(offset, log.log_start_offset)
    latest: BatchHeader | None = None
    left = HEADERS_AT_ONCE
    for segment in log.segments.from_offset(offset):
        timestamp, last_offset = segment.largest_timestamp()
        if timestamp <= least:
            continue
        for header in _headers_with_largest(segment, last_offset, offset, already_read):
            if header.max_timestamp > least and header.last_offset not in already_read:
                latest, least = header, header.max_timestamp
            left -= 1
            if left <= 0:
                return latest, header.last_offset + 1
        left -= SEGMENT_COST
    return latest, None


def _headers_with_largest(segment: Segment, last_offset: int, offset: int, already_read: set[int]) -> Iterable[BatchHeader]:
    """Return headers that include the one with the largest timestamp at or above `offset`, without those already read.

    That is one header, unless the one that the time index names is below `offset` or already read.
    """
    if last_offset >= offset and last_offset not in already_read:
        header = segment.find(last_offset)
        if header is not None and header.last_offset not in already_read:
            return (header,)
    return segment.headers_from(offset)


def _is_better(found: TimestampOffset, best: TimestampOffset) -> bool:
    return found.timestamp > best.timestamp or (found.timestamp == best.timestamp and found.offset < best.offset)
