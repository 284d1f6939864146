"""Payloads of batches, decompressed one behind the other into one buffer that is used again and again.

Memory that was touched before costs nothing to touch again, and records that are decoded soon after lie in the processor's caches.
"""

from __future__ import annotations

from struct import Struct

import numpy as np
from cramjam import DecompressionError, lz4

from minibroker.records.compression import MAX_DECOMPRESSED_BYTES, Compression, decompress
from minibroker.spark.kafka_log.fields import PADDING

HEADER_SIZE = 7
#: all headers of plain frames, and how large their blocks can become
BLOCK_BYTES = {
    bytes.fromhex("04224d18604082"): 64 << 10,
    bytes.fromhex("04224d186050fb"): 256 << 10,
    bytes.fromhex("04224d18606051"): 1 << 20,
    bytes.fromhex("04224d18607073"): 4 << 20,
}
NOT_COMPRESSED = 1 << 31

_unpack_size = Struct("<I").unpack_from


def block_bytes(data: bytes, start: int) -> int:
    """How large a block of the plain frame that begins at `start` can become; 0 when there begins none."""
    return BLOCK_BYTES.get(data[start : start + HEADER_SIZE], 0)


def plain_blocks(data: bytes, start: int, stop: int) -> list[tuple[int, int, bool]]:
    """The blocks of the plain frame data[start:stop]: where each begins and ends, and whether it is compressed. None: it is broken."""
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

GROUP_BYTES = 2 << 20  #: of records, decoded at once; a larger batch is a group of its own
SPARE_BYTES = 256 << 10  #: behind them, for a batch whose size is not known before
KEPT_BYTES = 8 << 20  #: a buffer that had to become larger is given up


class PayloadBuffer:
    """Holds the payloads of a group; `starts` and `stops` say where in `data` (uint8, with PADDING behind them) each of them lies."""

    def __init__(self) -> None:
        self._take(GROUP_BYTES + SPARE_BYTES)
        self.starts: list[int] = []
        self.stops: list[int] = []
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether a group is large enough."""
        return self._end >= GROUP_BYTES

    def clear(self) -> None:
        """Forget all payloads."""
        self.starts, self.stops, self._end = [], [], 0
        if len(self.data) > KEPT_BYTES:  # a huge batch has passed
            self._take(GROUP_BYTES + SPARE_BYTES)

    def _take(self, size: int) -> None:
        self.data = np.empty(size, np.uint8)
        self._view = memoryview(self.data)  # type: ignore[arg-type, unused-ignore]

    def append(self, codec: int, chunk: bytes, start: int, stop: int) -> None:
        """Decompress the payload chunk[start:stop] behind the others; KafkaError when it is broken."""
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
        """False, and nothing appended, when a block is broken or becomes larger than `limit`: others have better words for that."""
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
        """So many bytes from `position`, and padding."""
        needed = position + size + PADDING
        if needed > len(self.data):
            before = self.data
            self._take(needed + needed // 2)
            self.data[:position] = before[:position]
