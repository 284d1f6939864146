"""Batches and their records in any message format: v2 (batch.py, record.py), or v0 and v1 (legacy.py)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Final, cast

from minibroker.errors import InvalidRecord
from minibroker.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_POSITION, MAGIC_V2, MIN_LEGACY_SIZE, RecordBatch
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from minibroker.records.record import Record, decode_record

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from minibroker.records.legacy import LegacyBatch

_LENGTH: Final = Struct(">i")


def read_batch(data: Buffer, position: int = 0) -> RecordBatch:
    """Return the batch at `position`. Raises CorruptMessage if there is no whole one."""
    view = memoryview(data)
    if len(view) > position + MAGIC_POSITION and view[position + MAGIC_POSITION] < MAGIC_V2:
        from minibroker.records.legacy import LegacyBatch  # noqa: PLC0415  a start does not need the old formats

        return LegacyBatch(view, position)
    return RecordBatch(view, position)


def split_batches(data: Buffer, *, allow_partial: bool = False) -> Iterator[RecordBatch]:
    """Yield the batches of `data`, without checking their CRC.

    Raises CorruptMessage at the first position without a whole batch. With `allow_partial`, a batch that is cut off at the
    end of `data` stops the iteration instead, as in a Fetch response or a read of a limited size from a segment. Impossible lengths
    still raise.
    """
    view = memoryview(data)
    position, end = 0, len(view)
    while position < end:
        if allow_partial and _is_cut_off(view, position, end - position):
            return
        batch = read_batch(view, position)
        yield batch
        position += batch.size


def _is_cut_off(view: memoryview, position: int, remaining: int) -> bool:
    """Whether the remaining bytes may be the beginning of a longer batch."""
    if remaining < LOG_OVERHEAD:
        return True
    batch_length: int = _LENGTH.unpack_from(view, position + 8)[0]
    may_be_legacy = remaining <= MAGIC_POSITION or view[position + MAGIC_POSITION] < MAGIC_V2
    least = MIN_LEGACY_SIZE if may_be_legacy else HEADER_SIZE
    return batch_length >= least - LOG_OVERHEAD and remaining < LOG_OVERHEAD + batch_length


def decode_records(batch: RecordBatch, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """Yield the records of `batch`. Raises InvalidRecord when the iteration reaches a record that is invalid.

    legacy.py decodes batches of formats v0 and v1. The payload of a batch of v2 is decompressed at the start, to `max_bytes` at most.
    These are checked: each record's length; its offset against the batch's and against the previous one; lengths and header counts
    against the bytes that remain; the record count; leftover bytes.
    """
    if batch.magic < MAGIC_V2:
        yield from cast("LegacyBatch", batch).decode(max_bytes=max_bytes)
        return
    kind = batch.compression
    payload = bytes(batch.payload) if kind is Compression.NONE else decompress(kind, batch.payload, max_bytes=max_bytes)
    log_append_time = batch.max_timestamp if batch.timestamp_type else None
    base_offset, base_timestamp, last_offset_delta = batch.base_offset, batch.base_timestamp, batch.last_offset_delta
    position, previous_delta = 0, -1
    if batch.record_count < 0:
        raise InvalidRecord(f"a batch of {batch.record_count} records")
    for index in range(batch.record_count):
        try:
            offset_delta, timestamp_delta, key, value, headers, position = decode_record(payload, position)
        except IndexError:
            raise InvalidRecord(f"record {index} of {batch.record_count} continues after the end of its batch") from None
        if not previous_delta < offset_delta <= last_offset_delta:
            raise InvalidRecord(f"record {index}: offset delta {offset_delta} after {previous_delta}, last is {last_offset_delta}")
        previous_delta = offset_delta
        timestamp = base_timestamp + timestamp_delta if log_append_time is None else log_append_time
        yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    if position != len(payload):
        raise InvalidRecord(f"{len(payload) - position} bytes are left over after {batch.record_count} records")
