"""Where a zstd frame ends and how large it can become, told from its block headers before a byte is decompressed.

    Frame             magic 28 B5 2F FD, header (2..14 bytes), blocks, 4 bytes of checksum when the header says so
    Block             3 bytes, little-endian: bit 0 last, bits 1-2 type, bits 3-23 size; then the content
                      type 0 raw: `size` bytes   1 RLE: one byte that stands for `size`   2 compressed: `size` bytes, at most a
                      block's maximum when decompressed   3 reserved
    Skippable frame   magic 5x 2A 4D 18, little-endian uint32 size, so many bytes that mean nothing

A block's maximum is 128 KiB, or the window where that is smaller. This module exists because the library's one-shot call needs a size
where the header has none (the Java client's frames have none), its streams do not tell an early end from a good one, and headers lie.
Source: RFC 8878, sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from typing import NamedTuple

FRAME_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE_MAGIC_TAIL = b"\x2a\x4d\x18"
MAX_BLOCK_BYTES = 128 * 1024
MAX_WINDOW_BYTES = 128 * 1024 * 1024  #: what the Java client's zstd accepts (a window log of 27)
CONTENT_SIZE_BYTES = (0, 2, 4, 8)
DICTIONARY_ID_BYTES = (0, 1, 2, 4)

RAW, RLE, COMPRESSED = 0, 1, 2


class ZstdFrame(NamedTuple):
    """One frame inside a payload: it ends before `end`, and becomes `size_bound` bytes, or at most so many unless `is_exact`."""

    end: int
    size_bound: int
    is_exact: bool
    part_count: int  #: the frame itself and its blocks


def measure_frame(data: memoryview, position: int, max_parts: int) -> ZstdFrame:
    """The frame at `position`. A skippable one holds 0 bytes.

    Raises ValueError or IndexError when it is broken, ends early, or has more than `max_parts` parts.
    """
    magic = bytes(data[position : position + 4])
    if len(magic) == 4 and magic[1:] == SKIPPABLE_MAGIC_TAIL and magic[0] & 0xF0 == 0x50:
        return ZstdFrame(_within(data, position + 8 + _little(data, position + 4, 4)), 0, True, 1)
    if magic != FRAME_MAGIC:
        raise ValueError("no frame where one should start")
    descriptor = data[position + 4]
    position += 5
    single_segment = descriptor >> 5 & 1
    window_bytes = 0
    if not single_segment:
        exponent, mantissa = data[position] >> 3, data[position] & 7
        window_bytes = (1 << (10 + exponent)) * (8 + mantissa) // 8
        position += 1
    position += DICTIONARY_ID_BYTES[descriptor & 3]
    width = CONTENT_SIZE_BYTES[descriptor >> 6] or single_segment
    content_bytes = _little(data, position, width) + (256 if width == 2 else 0)
    position += width
    if single_segment:
        window_bytes = content_bytes
    if window_bytes > MAX_WINDOW_BYTES:
        raise ValueError(f"a window of {window_bytes} bytes")
    position, size_bound, block_count = _walk_blocks(data, position, min(window_bytes, MAX_BLOCK_BYTES), max_parts)
    end = _within(data, position + (4 if descriptor & 4 else 0))
    if width:
        if content_bytes > size_bound:
            raise ValueError(f"a frame of at most {size_bound} bytes claims {content_bytes}")
        size_bound = content_bytes
    return ZstdFrame(end, size_bound, width > 0, block_count + 1)


def _walk_blocks(data: memoryview, position: int, max_block_bytes: int, max_count: int) -> tuple[int, int, int]:
    """Where the last block ends, how much all of them can hold, and how many there are."""
    size_bound = 0
    for count in range(1, max_count + 1):
        header = _little(data, position, 3)
        kind, size = header >> 1 & 3, header >> 3
        if kind > COMPRESSED or size > max_block_bytes:
            raise ValueError(f"a block of type {kind} and {size} bytes")
        size_bound += max_block_bytes if kind == COMPRESSED else size
        position += 3 + (1 if kind == RLE else size)
        if header & 1:
            return position, size_bound, count
    raise ValueError(f"more than {max_count} blocks")


def _little(data: memoryview, position: int, width: int) -> int:
    return int.from_bytes(data[position : _within(data, position + width)], "little")


def _within(data: memoryview, end: int) -> int:
    if end > len(data):
        raise IndexError("it ends early")
    return end
