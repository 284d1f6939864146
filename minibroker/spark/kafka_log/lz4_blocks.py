"""The blocks of an lz4 frame of the plain kind that Kafka's producers write: each can be decompressed on its own, into a place of ours.

    Frame    magic 04 22 4D 18, flags, block size, checksum of both; blocks; four bytes 0
    Block    little-endian uint32: bit 31 not compressed, bits 0-30 size; then so many bytes

Plain: blocks are independent, there are no checksums of contents and no sizes of them. A frame of another kind, or a broken one, is for
records/compression.py, which takes all of them and tells what is wrong. Source: lz4_Frame_format.md, 1.6.4.
"""

from __future__ import annotations

from struct import Struct

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
