"""Find the first record of a batch of format v2 at or after a timestamp, without creating records.

The length, timestamp delta and offset delta of each record are read, and the rest is skipped. The records come from a log, as in
records/key_walk.py, so only lengths that the walk needs are checked.

If the answer is not among the first AT_ONCE_RECORDS and in AT_ONCE_CONTENT bytes, it is found in steps (`first_in_steps`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from minibroker.errors import InvalidRecord
from minibroker.records.batch import COMPRESSION_MASK, HEADER, HEADER_SIZE, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD, RecordBatch
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress, decompressed_pieces
from minibroker.records.long_batch import HEAD_BYTES, STEP_RECORDS
from minibroker.records.record import MAX_VARLONG_BITS, read_varint
from minibroker.records.steps import LongBatch, Steps
from minibroker.records.validate import AT_ONCE_CONTENT, AT_ONCE_RECORDS

_AT_ONCE = slice(AT_ONCE_RECORDS)


def first_at_or_after(data: bytes, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Return timestamp and offset of the first record not below `timestamp_ms` and `start_offset`; None if there is none.

    `data` is a batch or the beginning of one, its whole header at least.

    Raises:
        IndexError: `data` ends before the answer.
        LongBatch: the answer takes more than a few milliseconds.
        InvalidRecord: `data` is not a batch.
    """
    base_offset, batch_length, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = HEADER.unpack_from(data)
    position = HEADER_SIZE
    if attributes & COMPRESSION_MASK:
        if len(data) < LOG_OVERHEAD + batch_length:
            raise IndexError
        codec = Compression.of(attributes & COMPRESSION_MASK)
        try:
            data, position = decompress(codec, memoryview(data)[HEADER_SIZE:], max_bytes=AT_ONCE_CONTENT), 0
        except InvalidRecord:  # too large, or broken: the steps find out which
            raise LongBatch from None
    if attributes & LOG_APPEND_TIME_FLAG:
        if max_timestamp < timestamp_ms:
            return None
        found = _first(data, position, count, None, start_offset - base_offset)
        return None if found is None else (max_timestamp, base_offset + found[1])
    found = _first(data, position, count, timestamp_ms - base_timestamp, start_offset - base_offset)
    return None if found is None else (base_timestamp + found[0], base_offset + found[1])


def _first(data: bytes, position: int, count: int, least_timestamp: int | None, least_offset: int) -> tuple[int, int] | None:
    """Return timestamp and offset as deltas; without `least_timestamp` any timestamp matches."""
    for index in range(count)[_AT_ONCE]:
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord(f"record {index} of {length} bytes")
        next_position = position + length
        number = data[position + 1]  # after the attributes
        position += 2
        if number < 0x80:
            timestamp_delta = (number >> 1) ^ -(number & 1)
        else:
            timestamp_delta, position = read_varint(data, position - 1, MAX_VARLONG_BITS)
        if least_timestamp is None or timestamp_delta >= least_timestamp:
            offset_delta, _ = read_varint(data, position)
            if offset_delta >= least_offset:
                return timestamp_delta, offset_delta
        position = next_position
    if count > AT_ONCE_RECORDS:
        raise LongBatch
    if count < 0:
        raise InvalidRecord(f"a batch of {count} records")
    return None


Head = tuple[int, int]  #: timestamp and offset of a record


def first_in_steps(data: bytes, timestamp_ms: int, start_offset: int) -> Steps[Head | None]:
    """Find what `first_at_or_after` finds, in a whole batch of any length. Raises InvalidRecord."""

    def look_at(heads: list[Head]) -> Head | None:
        return next((head for head in heads if head[0] >= timestamp_ms and head[1] >= start_offset), None)

    return (yield from _walk_in_steps(data, look_at))


def largest_in_steps(data: bytes, start_offset: int) -> Steps[Head | None]:
    """Find the record with the largest timestamp at or above `start_offset`, the first one of several. Raises InvalidRecord."""
    best: Head | None = None

    def look_at(heads: list[Head]) -> None:
        nonlocal best
        for head in heads:
            if head[1] >= start_offset and (best is None or head[0] > best[0]):
                best = head

    yield from _walk_in_steps(data, look_at)
    return best


def _walk_in_steps(data: bytes, look_at: Callable[[list[Head]], Head | None]) -> Steps[Head | None]:
    """Read the heads of all records, until `look_at` returns one."""
    batch = RecordBatch(data)
    walk = _HeadWalk(batch)
    pieces = decompressed_pieces(batch.compression, batch.payload, max_bytes=MAX_DECOMPRESSED_BYTES)
    while True:
        piece: bytes = yield partial(next, pieces, b"")
        heads = walk.heads(piece)
        while some := list(islice(heads, STEP_RECORDS)):
            found = look_at(some)
            if found is not None:
                return found
            yield None
        if not piece:
            return None


class _HeadWalk:
    """Timestamps and offsets of the records in pieces of a payload; with LogAppendTime all have the same timestamp."""

    __slots__ = ("_append_time_ms", "_base_offset", "_base_timestamp", "_left", "_rest", "_skip")

    def __init__(self, batch: RecordBatch) -> None:
        self._append_time_ms = batch.max_timestamp if batch.timestamp_type else None
        self._base_offset = batch.base_offset
        self._base_timestamp = batch.base_timestamp
        self._left = batch.record_count  #: records
        self._rest = b""  #: the beginning of a record
        self._skip = 0  #: bytes of the next piece that belong to the last record

    def heads(self, piece: bytes) -> Iterator[Head]:
        """Yield the heads of records in `piece`. An empty piece is the end of the payload."""
        data, position = self._rest + piece, self._skip
        end = len(data) - HEAD_BYTES if piece else len(data)
        while position < end and self._left:
            try:
                length, start = read_varint(data, position)
                timestamp_delta, after = read_varint(data, start + 1, MAX_VARLONG_BITS)
                offset_delta, _ = read_varint(data, after)
            except IndexError:
                raise InvalidRecord("a batch ends within a record") from None
            if length < 0:
                raise InvalidRecord(f"a record of {length} bytes")
            position = start + length
            self._left -= 1
            timestamp = self._base_timestamp + timestamp_delta if self._append_time_ms is None else self._append_time_ms
            yield timestamp, self._base_offset + offset_delta
        self._rest, self._skip = data[position:], max(position - len(data), 0)
