"""Look-ups by time: the first segment whose largest timestamp reaches the target, its time index, its offset index, then a walk.

A batch tells its largest timestamp in its header; only the batch that answers is decoded, to find the record. Timestamps need not
grow along a log: the answer is the first record in offset order. Source: UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from minibroker.log.results import TimestampOffset
from minibroker.log.segments import Segments
from minibroker.records.batch import RecordBatch
from minibroker.records.record import decode_records
from minibroker.storage.segment import Segment


def first_at_or_after(segments: Segments, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record at or above `start_offset` whose timestamp is `timestamp_ms` or later."""
    for segment in segments.from_offset(start_offset):
        if segment.largest_timestamp().timestamp >= timestamp_ms:
            found = _first_in_segment(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _first_in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    for header in segment.headers_from_timestamp(timestamp_ms, start_offset):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = first_in_batch(segment.batch_at(header), timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def first_in_batch(batch: RecordBatch, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    """The first record of a batch that is late enough in both ways."""
    for record in decode_records(batch):
        if record.timestamp >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
    return None


def largest(segments: Segments, start_offset: int) -> TimestampOffset | None:
    """The record with the largest timestamp at or above `start_offset`; of several, the first in the first segment that has it.

    Kafka also answers with records that were deleted while their segment is still there; nobody can read those.
    """
    best = max(segments, key=lambda segment: segment.largest_timestamp().timestamp)
    timestamp, last_offset = best.largest_timestamp()
    if timestamp < 0:
        return None
    header = best.find(last_offset)
    found = None if header is None else first_in_batch(best.batch_at(header), timestamp, best.base_offset)
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
