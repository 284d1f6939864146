"""zstd: RFC 8878; several frames and skippable frames are read as one payload.

    Frame             magic 28 B5 2F FD, header (2..14 bytes), blocks, 4 bytes of checksum when the header says so
    Block             3 bytes, little-endian: bit 0 last, bits 1-2 type, bits 3-23 size; then the content
                      type 0 raw: `size` bytes   1 RLE: one byte that stands for `size`   2 compressed: `size` bytes, at most a
                      block's maximum when decompressed   3 reserved
    Skippable frame   magic 5x 2A 4D 18, little-endian uint32 size, then `size` bytes without meaning

A block's maximum is 128 KiB, or the window where that is smaller. `measure_frame` finds from the block headers where a frame ends and how
large its content can be, before anything is decompressed. The library cannot do that: its one-shot call needs a size where the header has
none (frames of the Java client have none), its streams do not report a truncated frame, and a size in a header may be wrong.
Source: RFC 8878, sections 3.1.1 and 3.1.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.records.codecs.zstd_library import MAX_WINDOW_BYTES, find_library
from minibroker.records.compression import broken, parts_max, too_large, too_many_parts

if TYPE_CHECKING:
    from typing_extensions import Buffer

_DEFAULT_LEVEL: Final = 3

FRAME_MAGIC: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE_MAGIC_TAIL: Final = b"\x2a\x4d\x18"
MAX_BLOCK_BYTES: Final = 128 * 1024
CONTENT_SIZE_BYTES: Final = (0, 2, 4, 8)
DICTIONARY_ID_BYTES: Final = (0, 1, 2, 4)

RAW, RLE, COMPRESSED = 0, 1, 2

_library = find_library()
_ERRORS = (ValueError, IndexError, _library.error)


def compress(data: Buffer, level: int | None) -> bytes:
    """Compress into one frame; `level` is -131072 to 22, None for Kafka's default."""
    return _library.compress(data, _DEFAULT_LEVEL if level is None else level)


def decompress_at_once(data: memoryview, max_bytes: int) -> bytes | None:
    """Return the content of one frame; None if `pieces` has to decompress several. Raises InvalidRecord."""
    try:
        end, size_bound, is_exact, _ = measure_frame(data, 0, parts_max(len(data)))
        if end < len(data):
            return None
        if is_exact and size_bound > max_bytes:
            raise too_large("zstd", max_bytes)
        return _library.decompress_frame(data, min(size_bound, max_bytes)) if size_bound else b""
    except _ERRORS as error:
        raise broken("zstd", f"{error}, with a bound of {max_bytes} bytes") from None


def pieces(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Yield the content of all frames. Raises InvalidRecord."""
    position, parts = 0, parts_max(len(data))
    while position < len(data):
        try:
            frame = measure_frame(data, position, parts)
            parts -= frame.part_count
            if frame.is_exact and frame.size_bound > max_bytes:
                raise too_large("zstd", max_bytes)  # before there is a window of that size
            if frame.size_bound:
                yield from _library.frame_pieces(data[position : frame.end])
        except _ERRORS as error:
            raise broken("zstd", error) from None
        position = frame.end
        if parts <= 0 and position < len(data):
            raise too_many_parts("zstd", len(data))


class ZstdFrame(NamedTuple):
    """One frame in a payload: it ends before `end`; its content has `size_bound` bytes if `is_exact`, else at most `size_bound`."""

    end: int
    size_bound: int
    is_exact: bool
    part_count: int  #: the frame itself and its blocks


def measure_frame(data: memoryview, position: int, max_parts: int) -> ZstdFrame:
    """Return the frame at `position`. The content of a skippable one has 0 bytes.

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
    """Return the end of the last block, the largest size of all contents, and the number of blocks."""
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
