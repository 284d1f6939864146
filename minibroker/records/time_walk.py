"""The first record of a batch of format v2 that is late enough, found without making records.

Of each record its length, timestamp delta and offset delta are read, and the rest is jumped over. The records come from a log, as in
records/key_walk.py: only what would lead the walk astray is looked at.
"""

from __future__ import annotations

from minibroker.errors import InvalidRecord
from minibroker.records.batch import COMPRESSION_MASK, HEADER, HEADER_SIZE, LOG_APPEND_TIME_FLAG, LOG_OVERHEAD
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from minibroker.records.record import MAX_VARLONG_BITS, read_varint


def first_at_or_after(data: bytes, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Timestamp and offset of the first record that is not below `timestamp_ms` nor below `start_offset`; None when there is none.

    `data` is a batch or the beginning of one, its whole header at least: IndexError when it ends before the answer. InvalidRecord.
    """
    base_offset, batch_length, _, _, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = HEADER.unpack_from(data)
    position = HEADER_SIZE
    if attributes & COMPRESSION_MASK:
        if len(data) < LOG_OVERHEAD + batch_length:
            raise IndexError
        codec = Compression.of(attributes & COMPRESSION_MASK)
        data, position = decompress(codec, memoryview(data)[HEADER_SIZE:], max_bytes=MAX_DECOMPRESSED_BYTES), 0
    if attributes & LOG_APPEND_TIME_FLAG:
        if max_timestamp < timestamp_ms:
            return None
        found = _first(data, position, count, None, start_offset - base_offset)
        return None if found is None else (max_timestamp, base_offset + found[1])
    found = _first(data, position, count, timestamp_ms - base_timestamp, start_offset - base_offset)
    return None if found is None else (base_timestamp + found[0], base_offset + found[1])


def _first(data: bytes, position: int, count: int, least_timestamp: int | None, least_offset: int) -> tuple[int, int] | None:
    """The same in deltas; without `least_timestamp` any will do."""
    if count < 0:
        raise InvalidRecord(f"a batch of {count} records")
    for index in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise InvalidRecord(f"record {index} of {length} bytes")
        next_position = position + length
        number = data[position + 1]  # behind the attributes
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
    return None
