"""Look-ups by time: the first segment whose largest timestamp reaches the target, its time index, its offset index, then a walk.

Segments before that one are not looked at: what the largest timestamp was up to each is known, and it never falls. A batch tells its
largest timestamp in its header; only in the batch that answers records are looked at (records/time_walk.py). Timestamps need not grow
along a log: the answer is the first record in offset order. Source: UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from minibroker.errors import InvalidRecord
from minibroker.log.results import TimestampOffset
from minibroker.log.segments import Segments
from minibroker.records import time_walk
from minibroker.records.batch import MAGIC_POSITION, MAGIC_V2
from minibroker.records.record import decode_records
from minibroker.storage.batch_scan import BatchHeader
from minibroker.storage.segment import Segment

BEGINNING_SIZE = 4096  #: of a batch: where most answers lie


def first_at_or_after(segments: Segments, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record at or above `start_offset` whose timestamp is `timestamp_ms` or later."""
    place = segments.first_reaching(timestamp_ms)
    if place is None:
        return None
    while place < len(segments):
        segment = segments.nth(place)
        if segment.largest_timestamp().timestamp >= timestamp_ms:
            found = _first_in_segment(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
        place += 1
    return None


def _first_in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    for header in segment.headers_from_timestamp(timestamp_ms, start_offset):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = _first_at(segment, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _first_at(segment: Segment, header: BatchHeader, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record of a batch that is late enough in both ways."""
    beginning = segment.bytes_of(header, BEGINNING_SIZE)
    if beginning[MAGIC_POSITION] < MAGIC_V2:
        for record in decode_records(segment.batch_at(header)):
            if record.timestamp >= timestamp_ms and record.offset >= start_offset:
                return TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
        return None
    try:
        found = time_walk.first_at_or_after(beginning, timestamp_ms, start_offset)
    except IndexError:
        try:
            found = time_walk.first_at_or_after(segment.bytes_of(header), timestamp_ms, start_offset)
        except IndexError:
            raise InvalidRecord(f"the records of the batch at offset {header.base_offset} go on behind its end") from None
    return None if found is None else TimestampOffset(*found, header.leader_epoch)


def largest(segments: Segments, start_offset: int) -> TimestampOffset | None:
    """The record with the largest timestamp at or above `start_offset`; of several, the first in the first segment that has it.

    Kafka also answers with records that were deleted while their segment is still there; nobody can read those.
    """
    place = segments.first_reaching(segments.largest_timestamp())
    if place is None:
        return None
    best = segments.nth(place)
    timestamp, last_offset = best.largest_timestamp()
    if timestamp < 0:
        return None
    header = best.find(last_offset)
    found = None if header is None else _first_at(best, header, timestamp, best.base_offset)
    if found is not None and found.offset >= start_offset:
        return found
    return _largest_by_walking(segments, start_offset)


def _largest_by_walking(segments: Segments, start_offset: int) -> TimestampOffset | None:
    """For the time after records were deleted inside a segment: its time index speaks of them still."""
    best: TimestampOffset | None = None
    for segment in segments.from_offset(start_offset):
        for header in segment.headers_from(start_offset):
            if header.max_timestamp >= 0 and (best is None or header.max_timestamp > best.timestamp):
                for record in decode_records(segment.batch_at(header)):
                    if record.offset >= start_offset and (best is None or record.timestamp > best.timestamp):
                        best = TimestampOffset(record.timestamp, record.offset, header.leader_epoch)
    return best
