"""snappy: Xerial's framing as the Java client writes it, or one raw block.

    header    magic 82 "SNAPPY" 00, int32 version 1, int32 compatible version 1
    block     int32 size, then a raw snappy block of `size` bytes

The header may be repeated between blocks, where streams were joined. Without the magic the payload is one raw block.
Source: xerial's SnappyInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from cramjam import DecompressionError, snappy

from minibroker.records.compression import AT_ONCE_BYTES, AT_ONCE_CONTENT, broken, parts_max, too_large, too_many_parts

if TYPE_CHECKING:
    from typing_extensions import Buffer

XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER = XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
XERIAL_BLOCK_BYTES = 32 * 1024  #: records in one block, as the Java client writes them
MAX_RATIO = 22  #: a copy of 64 bytes takes 3


def compress(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001  snappy has no levels
    """Compress into Xerial's blocks."""
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(bytes(view[start : start + XERIAL_BLOCK_BYTES])))
        out += len(block).to_bytes(4)
        out += block
    return bytes(out)


def decompress_at_once(data: memoryview, max_bytes: int) -> bytes | None:
    """Return the content of a small payload; None if `pieces` has to decompress it. Raises InvalidRecord."""
    return b"".join(pieces(data, max_bytes)) if len(data) <= AT_ONCE_BYTES else None


def pieces(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Yield the content block by block: the library cannot decompress less at a time. Raises InvalidRecord."""
    try:
        if data[:8] == XERIAL_MAGIC:
            yield from _xerial_blocks(data, max_bytes)
        else:
            yield _decompress_block(data, max_bytes, max_bytes)
    except (DecompressionError, ValueError) as error:
        raise broken("snappy", error) from None


def _xerial_blocks(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    position, end, left = 0, len(data), max_bytes
    for _ in range(parts_max(end)):
        if position >= end:
            return
        if data[position : position + 8] == XERIAL_MAGIC:
            if data[position : position + 16] != XERIAL_HEADER:
                raise broken("snappy", "a framing of another version")
            position += 16
            continue
        start = position + 4
        size = int.from_bytes(data[position:start])
        position = start + size
        if position > end:
            raise broken("snappy", f"a block of {size} bytes where {max(end - start, 0)} remain")
        content = _decompress_block(data[start:position], left, max_bytes)
        left -= len(content)
        yield content
    if position < end:
        raise too_many_parts("snappy", end)


def _decompress_block(block: memoryview, left: int, max_bytes: int) -> bytes:
    """Decompress one raw block to at most `left` of `max_bytes`. The size that it claims is checked before memory is allocated."""
    size: int = snappy.decompress_raw_len(block)
    if size > left:
        raise too_large("snappy", max_bytes)
    if size > MAX_RATIO * len(block):
        raise broken("snappy", f"{len(block)} bytes claim to be {size}")
    if size <= AT_ONCE_CONTENT:
        return bytes(snappy.decompress_raw(block, output_len=size))
    out = BytesIO(bytes(size))  # decompressed in place: a large block is not copied
    with out.getbuffer() as view:
        snappy.decompress_raw_into(block, view)
    return out.getvalue()
