"""Walks over the batches of a `.log` file: their headers only, or whole.

A `.log` is batches end to end, nothing between, before or behind. What a walk meets instead raises CorruptMessage with file and position.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from minibroker.errors import CorruptMessage, UnsupportedForMessageFormat
from minibroker.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, RecordBatch
from minibroker.storage.files import FileHandle, Files

HEADER_CHUNK = 32 * 1024
BATCH_CHUNK = 1024 * 1024

#: base_offset, batch_length, partition_leader_epoch, magic, last_offset_delta, max_timestamp
_HEAD = Struct(">qiibxxxxxxi8xq")
unpack_head = _HEAD.unpack_from
HEAD_SIZE = _HEAD.size


class BatchHeader(NamedTuple):
    """What a look-up needs of a batch, and where it lies."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    leader_epoch: int


def read_headers(files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = HEADER_CHUNK) -> Iterator[BatchHeader]:
    """The headers of all batches from `position` up to `end`; payloads of large batches are skipped, not read."""
    chunk, chunk_position = b"", position
    while position < end:
        index = position - chunk_position
        if index + HEAD_SIZE > len(chunk):
            chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
            chunk_position, index = position, 0
            if len(chunk) < HEAD_SIZE:
                raise CorruptMessage(f"{handle.path}: {len(chunk)} bytes at position {position} are no batch")
        base_offset, batch_length, leader_epoch, magic, last_offset_delta, max_timestamp = unpack_head(chunk, index)
        size = LOG_OVERHEAD + batch_length
        if magic != MAGIC_V2 or size < HEADER_SIZE or position + size > end or last_offset_delta < 0:
            raise CorruptMessage(f"{handle.path}: no batch at position {position}")
        yield BatchHeader(position, size, base_offset, base_offset + last_offset_delta, max_timestamp, leader_epoch)
        position += size


def read_batches(files: Files, handle: FileHandle, position: int, end: int, *, chunk_size: int = BATCH_CHUNK) -> Iterator[RecordBatch]:
    """All batches from `position` up to `end`, whole, CRC unchecked."""
    while position < end:
        chunk = files.read_at(handle.opened(), min(chunk_size, end - position), position)
        index = 0
        while len(chunk) - index >= HEADER_SIZE:
            size = LOG_OVERHEAD + int.from_bytes(chunk[index + 8 : index + 12], "big", signed=True)
            if index + size > len(chunk) and index + size <= end - position and size >= HEADER_SIZE:
                break  # goes on behind the chunk
            try:
                batch = RecordBatch(chunk, index)
            except UnsupportedForMessageFormat:
                if is_legacy(memoryview(chunk)[index:]):
                    raise
                raise CorruptMessage(f"{handle.path}: no batch at position {position + index}") from None
            except CorruptMessage as error:
                raise CorruptMessage(f"{handle.path}: no batch at position {position + index}: {error}") from None
            yield batch
            index += size
        if index == 0:
            if end - position < HEADER_SIZE or len(chunk) < min(chunk_size, end - position):
                raise CorruptMessage(f"{handle.path}: {end - position} bytes at position {position} are no batch")
            chunk_size = max(chunk_size, size)
        position += index


def is_legacy(data: memoryview) -> bool:
    """Whether a message of format v0 or v1 starts here: its CRC-32 tells it from a batch whose magic byte was damaged."""
    size = LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True)
    return 26 <= size <= len(data) and zlib.crc32(data[16:size]) == int.from_bytes(data[12:16], "big")
