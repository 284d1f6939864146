"""Look-ups by time: the first segment whose largest timestamp reaches the target, its time index, its offset index, then a walk.

Segments before that one are not looked at: what the largest timestamp was up to each is known, and it never falls. A batch tells its
largest timestamp in its header; only in the batch that answers records are looked at (records/time_walk.py). Timestamps need not grow
along a log: the answer is the first record in offset order. Source: UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.1.

A look-up ends with LongLookup at a batch that takes more than a few milliseconds: its records are walked in steps, without the segment,
which may be gone by then. The look-up starts again with what was found in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from minibroker.errors import InvalidRecord
from minibroker.log.results import TimestampOffset
from minibroker.log.segments import Segments
from minibroker.records import time_walk
from minibroker.records.any_format import decode_records
from minibroker.records.batch import MAGIC_POSITION, MAGIC_V2
from minibroker.records.steps import LongBatch, Steps, finished
from minibroker.storage.batch_scan import BatchHeader
from minibroker.storage.segment import Segment

BEGINNING_SIZE = 4096  #: of a batch: where most answers lie


class LongLookup(LongBatch):
    """What is looked for may be in a long batch: `steps` find it there."""

    def __init__(self, steps: Steps[tuple[int, int] | None], header: BatchHeader) -> None:
        super().__init__()
        self.steps = steps
        self.last_offset = header.last_offset
        self.leader_epoch = header.leader_epoch


Known = dict[int, TimestampOffset | None]  #: last offset of a long batch -> what was found in it


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
    except (IndexError, LongBatch):
        data = segment.bytes_of(header)
        try:
            found = time_walk.first_at_or_after(data, timestamp_ms, start_offset)
        except LongBatch:
            raise LongLookup(time_walk.first_in_steps(data, timestamp_ms, start_offset), header) from None
        except IndexError:
            raise InvalidRecord(f"the records of the batch at offset {header.base_offset} go on behind its end") from None
    return None if found is None else TimestampOffset(*found, header.leader_epoch)


def largest(segments: Segments, start_offset: int, known: Known | None = None) -> TimestampOffset | None:
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
    if header is not None and last_offset >= start_offset:
        try:
            found = _first_at(best, header, timestamp, start_offset)
        except LongLookup:
            found = None  # its steps would only tell whether there is a record with this very timestamp
        if found is not None:
            return found
    return _largest_above(segments, start_offset, known or {})


def _largest_above(segments: Segments, start_offset: int, known: Known) -> TimestampOffset | None:
    """The same after records were deleted inside a segment, whose time index still names them, or by compaction.

    The largest timestamp in a batch is at most that of its header. So batches are looked into in the order of those, from the largest down,
    until none can be better: mostly one or two, for a header is only wrong where records of its batch are gone.
    """
    best: TimestampOffset | None = None
    looked_into: set[int] = set()
    while True:
        least = -1 if best is None else best.timestamp
        next_best: tuple[Segment, BatchHeader] | None = None
        for segment in segments.from_offset(start_offset):
            for header in _latest_headers(segment, start_offset, looked_into):
                if header.max_timestamp > least and header.last_offset not in looked_into:
                    least, next_best = header.max_timestamp, (segment, header)
        if next_best is None:
            return best
        header = next_best[1]
        looked_into.add(header.last_offset)
        found = known[header.last_offset] if header.last_offset in known else _largest_in(*next_best, start_offset)
        if found is not None and found.timestamp >= 0 and (best is None or _is_better(found, best)):
            best = found


def _is_better(found: TimestampOffset, best: TimestampOffset) -> bool:
    return found.timestamp > best.timestamp or (found.timestamp == best.timestamp and found.offset < best.offset)


def _latest_headers(segment: Segment, start_offset: int, looked_into: set[int]) -> Iterable[BatchHeader]:
    """Headers among which is that of the largest timestamp at or above `start_offset`, but for those that were looked into."""
    if segment.base_offset >= start_offset:
        timestamp, last_offset = segment.largest_timestamp()
        header = segment.find(last_offset) if timestamp >= 0 else None
        if header is None:
            return ()
        if header.last_offset not in looked_into:
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
