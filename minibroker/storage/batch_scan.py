"""Walks over the batches of a `.log` file: only their headers, whole batches, or with a check of every CRC.

A `.log` is batches end to end with nothing else. Anything else raises CorruptMessage with file and position.
Old segments hold messages and compressed sets of formats v0 and v1 (records/legacy.py), which count as batches here.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from minibroker.errors import CorruptMessage, KafkaError
from minibroker.records.any_format import read_batch
from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MIN_LEGACY_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from minibroker.records.checksum import crc32c
from minibroker.storage.files import FileHandle, Files

FIRST_CHUNK: Final = 4 * 1024
HEADER_CHUNK: Final = 32 * 1024
BATCH_CHUNK: Final = 1024 * 1024
TRANSACTIONAL_CHUNK: Final = 128 * 1024

#: base_offset, batch_length, partition_leader_epoch, magic, last_offset_delta, max_timestamp
_HEAD: Final = Struct(">qiibxxxxxxi8xq")
unpack_head: Final = _HEAD.unpack_from
HEAD_SIZE: Final = _HEAD.size

#: base_offset, batch_length, magic, attributes, producer_id
_unpack_owner: Final = Struct(">qi4xb4xh20xq").unpack_from

#: offset, message_size, magic, and in v1 the timestamp
_unpack_legacy_head: Final = Struct(">qi4xbxq").unpack_from
_MIN_V1_SIZE: Final = 34


class BatchHeader(NamedTuple):
    """The header fields of a batch that look-ups need, and its position.

    The head of an old compressed set has no base offset: its last offset is used, and a leader epoch of -1.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int


def read_headers(
    files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = HEADER_CHUNK, chunk: bytes = b""
) -> Iterator[BatchHeader]:
    """Yield the headers of all batches from `position` up to `end`, without reading the payloads of large batches.

    Look-ups end within a few batches, so the first chunk is small; chunks grow to `chunk_size` while batches are small compared with them.
    `chunk` has the bytes at `position` that the caller has already read.
    """
    chunk_position = position
    size_to_read = min(FIRST_CHUNK, chunk_size)
    while position < end:
        index = position - chunk_position
        if index + HEAD_SIZE > len(chunk):
            if index:
                size_to_read = min(2 * size_to_read if index < 2 * len(chunk) else FIRST_CHUNK, chunk_size)
            chunk = files.read_at(handle.opened(), min(size_to_read, end - position), position)
            chunk_position, index = position, 0
            if len(chunk) < HEAD_SIZE:
                yield (header := _old_header(handle, chunk, 0, position, end))
                position += header.size
                continue
        base_offset, batch_length, leader_epoch, magic, last_offset_delta, max_timestamp = unpack_head(chunk, index)
        size = LOG_OVERHEAD + batch_length
        if magic != MAGIC_V2 or size < HEADER_SIZE or position + size > end or last_offset_delta < 0:
            yield (header := _old_header(handle, chunk, index, position, end))
            position += header.size
            continue
        yield BatchHeader(position, size, base_offset, base_offset + last_offset_delta, max_timestamp, leader_epoch)
        position += size


def _old_header(handle: FileHandle, chunk: bytes, index: int, position: int, end: int) -> BatchHeader:
    """Return `legacy_header`. Raises CorruptMessage if there is none."""
    header = legacy_header(chunk, index, position, end)
    if header is None:
        raise CorruptMessage(f"{handle.path}: no batch at position {position}")
    return header


def legacy_header(data: bytes, index: int, position: int, end: int) -> BatchHeader | None:
    """Return the head of the message of format v0 or v1 at `index` of `data` (`position` in the file); None if there cannot be one.

    The message must end at or before position `end`; only its head is checked.
    """
    if len(data) - index < MIN_LEGACY_SIZE:
        return None
    offset, message_size, magic, timestamp = _unpack_legacy_head(data, index)
    size = LOG_OVERHEAD + message_size
    if not 0 <= magic < MAGIC_V2 or size < (_MIN_V1_SIZE if magic else MIN_LEGACY_SIZE) or position + size > end:
        return None
    return BatchHeader(position, size, offset, offset, timestamp if magic else NO_TIMESTAMP, NO_PARTITION_LEADER_EPOCH)


class TransactionalHeader(NamedTuple):
    """The header fields of a transactional batch or marker, and its position."""

    position: int
    size: int
    base_offset: int
    producer_id: int
    is_control: bool


def read_transactional(
    files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = TRANSACTIONAL_CHUNK
) -> Iterator[TransactionalHeader]:
    """Yield the headers of transactional batches and of markers. Each of the other batches costs half a microsecond."""
    while position < end:
        chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
        index, last_head = 0, len(chunk) - HEADER_SIZE
        while index <= last_head:
            base_offset, batch_length, magic, attributes, producer_id = _unpack_owner(chunk, index)
            size = LOG_OVERHEAD + batch_length
            if magic != MAGIC_V2 or size < HEADER_SIZE:
                size = _old_header(handle, chunk, index, position + index, end).size
            elif attributes & TRANSACTIONAL_FLAG:
                yield TransactionalHeader(position + index, size, base_offset, producer_id, attributes & CONTROL_FLAG != 0)
            index += size
        if index == 0:
            index = _old_header(handle, chunk, 0, position, end).size
        position += index


def read_batches(files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = BATCH_CHUNK) -> Iterator[RecordBatch]:
    """Yield all batches from `position` up to `end`, without checking their CRC."""
    while position < end:
        chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
        index = 0
        while len(chunk) - index >= MIN_LEGACY_SIZE:
            size = LOG_OVERHEAD + int.from_bytes(chunk[index + 8 : index + 12], "big", signed=True)
            if index + size > len(chunk) and index + size <= end - position and size >= MIN_LEGACY_SIZE:
                break  # it continues after the chunk
            try:
                batch = read_batch(chunk, index)
            except CorruptMessage as error:
                raise CorruptMessage(f"{handle.path}: no batch at position {position + index}: {error}") from None
            yield batch
            index += size
        if index == 0:
            if end - position < MIN_LEGACY_SIZE or len(chunk) < min(chunk_size, end - position):
                raise CorruptMessage(f"{handle.path}: {end - position} bytes at position {position} are not a batch")
            chunk_size = max(chunk_size, size)
        position += index


VERIFIED_CHUNK: Final = 1024 * 1024

#: position, size, base_offset, last_offset, max_timestamp, leader_epoch, attributes, producer_id, record_count, whether the CRC is right
VerifiedBatch = tuple[int, int, int, int, int, int, int, int, int, bool]

_MIN_SIZES: Final = (MIN_LEGACY_SIZE, 34)  #: of a message, by its magic

#: base_offset of an old compressed set that has a right CRC but cannot be decompressed: only its last offset is known
UNKNOWN_OFFSET: Final = -(2**63)

#: base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta, max_timestamp, producer_id, record_count
_VERIFIED_HEAD: Final = Struct(">qiibIhi8xqq2x4xi")
_unpack_verified: Final = _VERIFIED_HEAD.unpack_from

#: offset, message_size, crc, magic, attributes, and in v1 the timestamp: see records/legacy.py
_unpack_message: Final = Struct(">qiIBBq").unpack_from


def read_verified(
    files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = VERIFIED_CHUNK
) -> Iterator[VerifiedBatch]:
    """Yield all batches from `position` up to `end`, and check every CRC: recovery and `storage check` spend most of their time here.

    A batch costs about a microsecond in addition to its checksum, so it is a plain tuple, as are messages of
    formats v0 and v1. A caller that needs more reads the batch by its position. The caller checks the values:
    a last offset delta may be negative, and a batch with a wrong CRC may hold anything.

    Raises:
        CorruptMessage: there is no batch at some position; the message has file and position.
        OSError: the file cannot be read.
    """
    while position < end:
        chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
        view = memoryview(chunk)
        size = len(chunk)
        last_head = size - HEADER_SIZE
        index = after = 0
        while index <= last_head:
            base_offset, length, epoch, magic, crc, attributes, delta, timestamp, producer_id, count = _unpack_verified(view, index)
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
    """Yield the whole uncompressed messages of formats v0 and v1 from `index` on: old segments may have millions of them.

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
    """Yield at least one batch that `read_verified` cannot read itself, up to the next batch of format v2. Raises CorruptMessage.

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
        return batch.base_offset_and_count
    except KafkaError:  # an old compressed set has them only in its compressed payload
        return UNKNOWN_OFFSET, 0
