"""Walks over the batches of a `.log` file: only their headers, or whole batches.

A `.log` is batches end to end with nothing else. Anything else raises CorruptMessage with file and position.
Old segments hold messages and compressed sets of formats v0 and v1 (records/legacy.py), which count as batches here.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import read_batch
from minibroker.records.batch import (
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_LEGACY_SIZE,
    NO_PARTITION_LEADER_EPOCH,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    RecordBatch,
)
from minibroker.storage.files import FileHandle, Files

FIRST_CHUNK = 4 * 1024
HEADER_CHUNK = 32 * 1024
BATCH_CHUNK = 1024 * 1024
TRANSACTIONAL_CHUNK = 128 * 1024

#: base_offset, batch_length, partition_leader_epoch, magic, last_offset_delta, max_timestamp
_HEAD = Struct(">qiibxxxxxxi8xq")
unpack_head = _HEAD.unpack_from
HEAD_SIZE = _HEAD.size

#: base_offset, batch_length, magic, attributes, producer_id
_unpack_owner = Struct(">qi4xb4xh20xq").unpack_from

#: offset, message_size, magic, and in v1 the timestamp
_unpack_legacy_head = Struct(">qi4xbxq").unpack_from
_MIN_V1_SIZE = 34


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

    Look-ups end within a few batches, so the first chunk is small; chunks grow to `chunk_size` while batches are small beside them.
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
                break  # goes on after the chunk
            try:
                batch = read_batch(chunk, index)
            except CorruptMessage as error:
                raise CorruptMessage(f"{handle.path}: no batch at position {position + index}: {error}") from None
            yield batch
            index += size
        if index == 0:
            if end - position < MIN_LEGACY_SIZE or len(chunk) < min(chunk_size, end - position):
                raise CorruptMessage(f"{handle.path}: {end - position} bytes at position {position} are no batch")
            chunk_size = max(chunk_size, size)
        position += index
