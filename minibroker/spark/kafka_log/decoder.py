"""Decompress batches of format v2, and decode their records with numpy or with machine code.

Payloads are decompressed side by side into one buffer that is reused: it needs no new pages, and records that are decoded soon
after are still in the processor's caches. Most payloads are lz4 frames as Kafka's producers write them. Their blocks are
decompressed one by one into the buffer:

    Frame    magic 04 22 4D 18, flags, block size, checksum of both; blocks; four zero bytes
    Block    little-endian uint32: bit 31 not compressed, bits 0-30 size; then that many bytes

A plain frame has independent blocks, no checksums of contents and no content sizes. records/compression.py
decompresses all other frames and reports broken ones. Source: lz4_Frame_format.md, 1.6.4.

numpy takes half a microsecond per record. Machine code takes a tenth of that, but half a second to load: a process loads it
after it has decoded RECORDS_BEFORE_COMPILING records. Without numba, numpy decodes all records.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

import numpy as np
from cramjam import DecompressionError, lz4

from minibroker.records.batch import LOG_APPEND_TIME_FLAG
from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from minibroker.spark.kafka_log.columns import FieldColumns, RecordColumns, Rows
from minibroker.spark.kafka_log.fields import PADDING, SPLITTER, MalformedBatchError, Payloads, Splitter, read_fields

HEADER_SIZE = 7
#: the headers of plain frames, with the largest size of a decompressed block
BLOCK_BYTES = {
    bytes.fromhex("04224d18604082"): 64 << 10,
    bytes.fromhex("04224d186050fb"): 256 << 10,
    bytes.fromhex("04224d18606051"): 1 << 20,
    bytes.fromhex("04224d18607073"): 4 << 20,
}
NOT_COMPRESSED = 1 << 31
NO_MORE_BLOCKS = bytes(4)
LZ4 = int(Compression.LZ4)
_unpack_size = Struct("<I").unpack_from
decompress_block_into = lz4.decompress_block_into
GROUP_BYTES = 2 << 20  #: of records decoded at once; a larger batch is its own group
SPARE_BYTES = 256 << 10  #: more, for a batch of unknown decompressed size
KEPT_BYTES = 8 << 20  #: a larger buffer is released
RECORDS_BEFORE_COMPILING = 500_000
MAX_TIMESTAMP = (1 << 63) // 1000 - 1  #: epoch ms that fit into Spark's microseconds
Decode = Callable[["Group", int, int], RecordColumns]


def block_bytes(data: bytes, start: int) -> int:
    """Return the largest size of a decompressed block in the plain frame at `start`; 0 if there is no plain frame."""
    return BLOCK_BYTES.get(data[start : start + HEADER_SIZE], 0)


def plain_blocks(data: bytes, start: int, stop: int) -> list[tuple[int, int, bool]]:
    """Return start, end and whether it is compressed, for each block of the plain frame data[start:stop]; empty if broken."""
    blocks: list[tuple[int, int, bool]] = []
    position, last = start + HEADER_SIZE, stop - 4
    while position <= last:
        size = _unpack_size(data, position)[0]
        position += 4
        if not size:
            return blocks if position == stop else []
        end = position + (size & ~NOT_COMPRESSED)
        blocks.append((position, end, size < NOT_COMPRESSED))
        position = end
    return []


class PayloadBuffer:
    """The payloads of a group: payload i is data[starts[i]:stops[i]] (uint8), with PADDING bytes after the last one."""

    def __init__(self) -> None:
        self._take(GROUP_BYTES + SPARE_BYTES)
        self.starts: list[int] = []
        self.stops: list[int] = []
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether the group is large enough."""
        return self._end >= GROUP_BYTES

    def clear(self) -> None:
        """Forget all payloads."""
        self.starts, self.stops, self._end = [], [], 0
        if len(self.data) > KEPT_BYTES:  # after a huge batch
            self._take(GROUP_BYTES + SPARE_BYTES)

    def _take(self, size: int) -> None:
        self.data = np.empty(size, np.uint8)
        self._view = memoryview(self.data)  # type: ignore[arg-type, unused-ignore]

    def append(self, codec: int, chunk: bytes, start: int, stop: int) -> None:
        """Decompress the payload chunk[start:stop] after the others; KafkaError if it is broken."""
        begin = self._end
        limit = block_bytes(chunk, start) if codec == LZ4 else 0
        if limit and self._append_only_block(chunk, start, stop, limit):
            self.starts.append(begin)
            self.stops.append(self._end)
            return
        if not limit or not self._append_blocks(chunk, plain_blocks(chunk, start, stop), limit):
            payload = memoryview(chunk)[start:stop]
            content = decompress(Compression.of(codec), payload) if codec else payload
            self._make_room(begin, len(content))
            self._view[begin : begin + len(content)] = content
            self._end = begin + len(content)
        self.starts.append(begin)
        self.stops.append(self._end)

    def _append_only_block(self, chunk: bytes, start: int, stop: int, limit: int) -> bool:
        """Append a plain frame of one compressed block, as most are; return False and append nothing for others, or if it is broken."""
        first, last = start + HEADER_SIZE + 4, stop - 4
        if last <= first or _unpack_size(chunk, first - 4)[0] != last - first or chunk[last:stop] != NO_MORE_BLOCKS:
            return False
        begin = self._end
        self._make_room(begin, limit)
        try:
            self._end += decompress_block_into(memoryview(chunk)[first:last], self._view[begin : begin + limit], output_len=limit)
        except DecompressionError:
            return False
        return True

    def _append_blocks(self, chunk: bytes, blocks: list[tuple[int, int, bool]], limit: int) -> bool:
        """Append blocks; return False and append nothing if one is broken or larger than `limit`: `decompress` reports the error."""
        position = self._end
        if len(blocks) * limit > MAX_DECOMPRESSED_BYTES:
            return False
        self._make_room(position, len(blocks) * limit)
        view = memoryview(chunk)
        for start, stop, is_compressed in blocks:
            if is_compressed:
                try:
                    position += decompress_block_into(view[start:stop], self._view[position : position + limit], output_len=limit)
                except DecompressionError:
                    return False
            elif stop - start <= limit:
                self._view[position : position + stop - start] = view[start:stop]
                position += stop - start
            else:
                return False
        self._end = position
        return bool(blocks)

    def _make_room(self, position: int, size: int) -> None:
        """Have room for `size` bytes from `position` on, and padding."""
        needed = position + size + PADDING
        if needed > len(self.data):
            before = self.data
            self._take(needed + needed // 2)
            self.data[:position] = before[:position]


class Group(NamedTuple):
    """Batches to decode at once: their headers (frames.HEADER), and the positions of their payloads in `data` (uint8)."""

    data: np.ndarray  #: with PADDING bytes after the last payload
    headers: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    def without(self, batch: int) -> Group:
        """Return all batches except one."""
        return Group(self.data, *(np.delete(each, batch) for each in self[1:]))


class Decoder:
    """Decodes with machine code if this process has loaded it, otherwise with numpy; one object for all threads."""

    def __init__(self, compile_after: int = RECORDS_BEFORE_COMPILING) -> None:
        self._left = compile_after
        self._decode: Decode = decode_with_numpy

    def columns(self, group: Group, start_offset: int, end_offset: int) -> RecordColumns:
        """Return the records with start_offset <= offset < end_offset; MalformedBatchError if a batch's records do not match its header."""
        if self._left <= 0:
            self._left = 1 << 62
            self._decode = compiled_decode() or self._decode
        found = self._decode(group, start_offset, end_offset)
        self._left -= found.count
        return found


def compiled_decode() -> Decode | None:
    """Return the function in machine code; None if numba is not installed."""
    try:
        from minibroker.spark.kafka_log import compiled  # noqa: PLC0415  numba is optional, and takes half a second
    except ImportError:
        return None

    def decode(group: Group, start_offset: int, end_offset: int) -> RecordColumns:
        headers = group.headers
        batches = np.empty((len(headers), 8), np.int64)
        batches[:, compiled.START] = group.starts
        batches[:, compiled.STOP] = group.stops
        batches[:, compiled.RECORD_COUNT] = headers["record_count"]
        batches[:, compiled.BASE_OFFSET] = headers["base_offset"]
        batches[:, compiled.LAST_OFFSET_DELTA] = headers["last_offset_delta"]
        batches[:, compiled.BASE_TIMESTAMP] = headers["base_timestamp"]
        batches[:, compiled.IS_APPEND_TIME] = (headers["attributes"] & LOG_APPEND_TIME_FLAG) != 0
        batches[:, compiled.MAX_TIMESTAMP] = headers["max_timestamp"]
        return compiled.CompiledColumns(group.data, batches, start_offset, end_offset)

    return decode


def decode_with_numpy(group: Group, start_offset: int, end_offset: int, splitter: Splitter = SPLITTER) -> FieldColumns:
    """Return the same records, decoded with numpy."""
    headers = group.headers
    data = group.data[: int(group.stops.max(initial=0)) + PADDING].tobytes()
    counts = headers["record_count"].astype(np.int64)
    fields = read_fields(Payloads(data, group.starts, group.stops, counts, headers["last_offset_delta"].astype(np.int64)), splitter)
    batches = fields.batches
    offsets = headers["base_offset"].astype(np.int64)[batches] + fields.offset_deltas
    is_append_time = (headers["attributes"] & LOG_APPEND_TIME_FLAG) != 0
    timestamps = headers["base_timestamp"].astype(np.int64)[batches] + fields.timestamp_deltas
    if is_append_time.any():
        timestamps = np.where(is_append_time[batches], headers["max_timestamp"].astype(np.int64)[batches], timestamps)
    beyond = (timestamps > MAX_TIMESTAMP) | (timestamps < -MAX_TIMESTAMP)
    if beyond.any():
        raise MalformedBatchError("a timestamp that Spark cannot hold", int(batches[int(np.argmax(beyond))]))
    chosen = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
    types = is_append_time.astype(np.int32)[batches]
    return FieldColumns(fields, Rows(chosen, offsets[chosen], timestamps[chosen], types[chosen]))


DECODER = Decoder()
