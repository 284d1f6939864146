"""Decompress payloads of batches side by side into one buffer that is reused.

A reused buffer needs no new pages, and records that are decoded soon after are still in the processor's caches.

Most payloads are lz4 frames as Kafka's producers write them. Their blocks are decompressed one by one into the buffer:

    Frame    magic 04 22 4D 18, flags, block size, checksum of both; blocks; four zero bytes
    Block    little-endian uint32: bit 31 not compressed, bits 0-30 size; then that many bytes

A plain frame has independent blocks, no checksums of contents and no content sizes. records/compression.py
decompresses all other frames and reports broken ones. Source: lz4_Frame_format.md, 1.6.4.
"""

from __future__ import annotations

from struct import Struct

import numpy as np
from cramjam import DecompressionError, lz4

from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from minibroker.spark.kafka_log.fields import PADDING

HEADER_SIZE = 7
#: the headers of plain frames, with the largest size of a decompressed block
BLOCK_BYTES = {
    bytes.fromhex("04224d18604082"): 64 << 10,
    bytes.fromhex("04224d186050fb"): 256 << 10,
    bytes.fromhex("04224d18606051"): 1 << 20,
    bytes.fromhex("04224d18607073"): 4 << 20,
}
NOT_COMPRESSED = 1 << 31

_unpack_size = Struct("<I").unpack_from


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


decompress_block_into = lz4.decompress_block_into

GROUP_BYTES = 2 << 20  #: of records decoded at once; a larger batch is its own group
SPARE_BYTES = 256 << 10  #: more, for a batch of unknown decompressed size
KEPT_BYTES = 8 << 20  #: a larger buffer is released


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
        limit = block_bytes(chunk, start) if codec == Compression.LZ4 else 0
        if not limit or not self._append_blocks(chunk, plain_blocks(chunk, start, stop), limit):
            payload = memoryview(chunk)[start:stop]
            content = decompress(Compression.of(codec), payload) if codec else payload
            self._make_room(begin, len(content))
            self._view[begin : begin + len(content)] = content
            self._end = begin + len(content)
        self.starts.append(begin)
        self.stops.append(self._end)

    def _append_blocks(self, chunk: bytes, blocks: list[tuple[int, int, bool]], limit: int) -> bool:
        """Append blocks; return False and append nothing if one is broken or larger than `limit`: `decompress` says what is wrong."""
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
