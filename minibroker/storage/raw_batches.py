"""A walk over the batches of a closed `.log` for compaction: header fields as attributes, and the bytes without a copy.

Batches of formats v0 and v1 are included: `magic` is 0 or 1, and base_offset and last_offset are the offset of the entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minibroker.errors import CorruptMessage
from minibroker.records.any_format import read_batch
from minibroker.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAGIC_V2,
    MIN_LEGACY_SIZE,
    RecordBatch,
)
from minibroker.records.checksum import crc32c
from minibroker.records.compression import Compression, decompress
from minibroker.storage.files import Files

CHUNK_BYTES: Final = 1024 * 1024
_unpack = HEADER.unpack_from


class RawBatch:
    """One batch: `chunk[index:stop]`, at `position` in its file."""

    __slots__ = (
        "_records",
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "chunk",
        "crc",
        "index",
        "last_offset",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "path",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "stop",
    )

    def __init__(self, chunk: bytes, index: int, position: int, path: str) -> None:
        (
            self.base_offset,
            batch_length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _unpack(chunk, index)
        self.last_offset = self.base_offset + last_offset_delta
        self.chunk = chunk
        self.index = index
        self.stop = index + LOG_OVERHEAD + batch_length
        self.position = position
        self.path = path
        self._records: bytes | None = None  #: None: not decompressed yet, or not compressed

    @classmethod
    def of_legacy(cls, chunk: bytes, index: int, position: int, path: str) -> RawBatch:
        """Return an entry of format v0 or v1; only its `data`, `checked` and offsets may be used."""
        batch = cls.__new__(cls)
        batch.base_offset = batch.last_offset = int.from_bytes(chunk[index : index + 8], signed=True)
        batch.magic = chunk[index + MAGIC_POSITION]
        batch.attributes = 0
        batch.chunk = chunk
        batch.index = index
        batch.stop = index + LOG_OVERHEAD + int.from_bytes(chunk[index + 8 : index + 12], signed=True)
        batch.position = position
        batch.path = path
        return batch

    @property
    def data(self) -> memoryview:
        """The bytes of the batch."""
        return memoryview(self.chunk)[self.index : self.stop]

    @property
    def compression(self) -> Compression:
        """The codec. Raises UnsupportedCompressionType."""
        return Compression.of(self.attributes & COMPRESSION_MASK)

    def check_crc(self) -> None:
        """Raise CorruptMessage if the CRC is wrong."""
        if crc32c(memoryview(self.chunk)[self.index + ATTRIBUTES_POSITION : self.stop]) != self.crc:
            raise CorruptMessage(f"{self}: the CRC is wrong")

    def checked(self) -> RecordBatch:
        """Return the batch in its format after checking its CRC. Raises CorruptMessage."""
        batch = read_batch(self.data)
        if not batch.check_crc():
            raise CorruptMessage(f"{self}: the CRC is wrong")
        return batch

    def records(self) -> tuple[bytes, int, int]:
        """Return data, start and stop of the uncompressed records. Raises CorruptMessage (wrong CRC), InvalidRecord (broken payload)."""
        if not self.attributes & COMPRESSION_MASK:
            self.check_crc()
            return self.chunk, self.index + HEADER_SIZE, self.stop
        if self._records is None:
            self.check_crc()
            self._records = decompress(self.compression, memoryview(self.chunk)[self.index + HEADER_SIZE : self.stop])
        return self._records, 0, len(self._records)

    def __str__(self) -> str:
        return f"{self.path}, position {self.position}"


def read_raw(files: Files, descriptor: int, size: int, path: str) -> Iterator[RawBatch]:
    """Yield all batches of a file of `size` bytes. Raises CorruptMessage if other bytes follow. `path` is for messages."""
    position = 0
    chunk_bytes = CHUNK_BYTES
    while position < size:
        chunk = files.read_at(descriptor, min(chunk_bytes, size - position), position)
        length = len(chunk)
        index = 0
        last_head = length - HEADER_SIZE
        while index <= last_head and chunk[index + MAGIC_POSITION] == MAGIC_V2:
            batch = RawBatch(chunk, index, position + index, path)
            if not index + HEADER_SIZE <= batch.stop <= length:
                break
            yield batch
            index = batch.stop
        needed = HEADER_SIZE
        while length - index > MAGIC_POSITION:
            stop = index + LOG_OVERHEAD + int.from_bytes(chunk[index + 8 : index + 12], signed=True)
            magic = chunk[index + MAGIC_POSITION]
            if magic > MAGIC_V2 or stop - index < (HEADER_SIZE if magic == MAGIC_V2 else MIN_LEGACY_SIZE) or position + stop > size:
                raise CorruptMessage(f"{path}, position {position + index}: not a batch")
            if stop > length:
                needed = stop - index
                break
            yield (RawBatch if magic == MAGIC_V2 else RawBatch.of_legacy)(chunk, index, position + index, path)
            index = stop
        if index == 0:
            if length == size - position or chunk_bytes >= needed:
                raise CorruptMessage(f"{path}, position {position}: {length} bytes are not a batch")
            chunk_bytes = needed
        else:
            chunk_bytes = max(CHUNK_BYTES, needed)
        position += index
