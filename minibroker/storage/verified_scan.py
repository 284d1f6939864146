"""A walk over all batches of a `.log` that checks every CRC: recovery and `storage check` spend most of their time here.

A batch costs about a microsecond in addition to its checksum, so it is yielded as a plain tuple. A caller that needs more reads the batch
by its position. Messages of formats v0 and v1 are tuples as well, read by batch_scan.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from zlib import crc32

from minibroker.errors import KafkaError
from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MIN_LEGACY_SIZE,
    NO_TIMESTAMP,
    RecordBatch,
)
from minibroker.records.checksum import crc32c
from minibroker.storage.batch_scan import read_batches
from minibroker.storage.files import FileHandle, Files

CHUNK_BYTES = 1024 * 1024

#: position, size, base_offset, last_offset, max_timestamp, leader_epoch, attributes, producer_id, record_count, whether the CRC is right
VerifiedBatch = tuple[int, int, int, int, int, int, int, int, int, bool]

_MIN_SIZES = (MIN_LEGACY_SIZE, 34)  #: of a message, by its magic

#: base_offset of an old compressed set whose CRC is right, but which cannot be decompressed: only its last offset is known
UNKNOWN_OFFSET = -(2**63)

#: base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta, max_timestamp, producer_id, record_count
_HEAD = Struct(">qiibIhi8xqq2x4xi")
_unpack = _HEAD.unpack_from

#: offset, message_size, crc, magic, attributes, and in v1 the timestamp: see records/legacy.py
_unpack_message = Struct(">qiIBBq").unpack_from


def read_verified(files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = CHUNK_BYTES) -> Iterator[VerifiedBatch]:
    """Yield all batches from `position` up to `end`. Raises CorruptMessage with file and position where there is none, and OSError.

    The caller checks the values: a last offset delta may be negative, and a batch with a wrong CRC may hold anything.
    """
    while position < end:
        chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
        view = memoryview(chunk)
        size = len(chunk)
        last_head = size - HEADER_SIZE
        index = after = 0
        while index <= last_head:
            base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id, count = _unpack(view, index)
            after = index + LOG_OVERHEAD + length
            if after > size or magic != MAGIC_V2 or length < HEADER_SIZE - LOG_OVERHEAD:
                before = index
                for found in _read_messages(view, index, position):
                    yield found
                    index = found[0] + found[1] - position
                if index == before:
                    break
                continue
            yield (
                position + index,
                after - index,
                base_offset,
                base_offset + delta,
                timestamp,
                epoch,
                attributes,
                producer_id,
                count,
                crc32c(view[index + ATTRIBUTES_POSITION : after]) == crc,
            )
            index = after
        position += index
        if index == 0 or (index <= last_head and after <= size):
            for found in _read_slowly(files, handle, position, end):
                yield found
                position = found[0] + found[1]


def _read_messages(view: memoryview, index: int, position: int) -> Iterator[VerifiedBatch]:
    """Return the whole uncompressed messages of formats v0 and v1 from `index` on: old segments may have millions of them.

    `position` is the position of `view` in the file.
    """
    size = len(view)
    while index + MIN_LEGACY_SIZE <= size:
        offset, length, crc, magic, attributes, timestamp = _unpack_message(view, index)
        after = index + LOG_OVERHEAD + length
        if magic >= MAGIC_V2 or attributes & COMPRESSION_MASK or after > size or after - index < _MIN_SIZES[magic]:
            return
        is_right = crc32(view[index + MAGIC_POSITION : after]) == crc
        if magic:
            yield position + index, after - index, offset, offset, timestamp, -1, attributes & LOG_APPEND_TIME_FLAG, -1, 1, is_right
        else:
            yield position + index, after - index, offset, offset, NO_TIMESTAMP, -1, 0, -1, 1, is_right
        index = after


def _read_slowly(files: Files, handle: FileHandle, position: int, end: int) -> Iterator[VerifiedBatch]:
    """Return at least one batch that the walk above cannot read, up to the next batch of format v2. Raises CorruptMessage.

    Such a batch is larger than a chunk, or it is an old compressed set or a torn end.
    """
    for batch in read_batches(files, handle, position, end):
        is_right = batch.check_crc()
        base_offset, record_count = _base_offset_and_count(batch) if is_right else (batch.last_offset, 0)
        yield (
            position,
            batch.size,
            base_offset,
            batch.last_offset,
            batch.max_timestamp,
            batch.partition_leader_epoch,
            batch.attributes,
            batch.producer_id,
            record_count,
            is_right,
        )
        position += batch.size
        if batch.magic == MAGIC_V2:
            return


def _base_offset_and_count(batch: RecordBatch) -> tuple[int, int]:
    try:
        return batch.base_offset, batch.record_count
    except KafkaError:  # an old compressed set tells them only when it is decompressed
        return UNKNOWN_OFFSET, 0
