"""Payloads of compressed batches that cost a reader more than their size suggests, for each codec."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from io import BytesIO

import lz4.frame
from cramjam import snappy

from minibroker.records.codecs.snappy import XERIAL_HEADER
from minibroker.records.compression import Compression, compress
from minibroker.records.record import Record, encode_record

EMPTY_GZIP_MEMBER = gzip.compress(b"", mtime=0)
EMPTY_ZSTD_FRAME = b"\x28\xb5\x2f\xfd\x00\x00\x01\x00\x00"  #: without a content size
SKIPPABLE_ZSTD_FRAME = b"\x50\x2a\x4d\x18\0\0\0\0"
EMPTY_XERIAL_BLOCK = b"\0\0\0\1\0"  #: one byte, which says that 0 follow


def many(part: bytes) -> Callable[[int], bytes]:
    """Make payloads of about so many bytes that are `part` again and again."""
    return lambda size: part * (size // len(part))


def zstd_empty_blocks(size: int) -> bytes:
    """One frame of raw blocks without content, which the last one ends."""
    frame = b"\x28\xb5\x2f\xfd\0\x58"  # no checksum, no content size, a window of 2 MiB
    return frame + bytes(3) * ((size - len(frame)) // 3 - 1) + b"\1\0\0"


def xerial_empty_blocks(size: int) -> bytes:
    """One framing and blocks of nothing."""
    return XERIAL_HEADER + many(EMPTY_XERIAL_BLOCK)(size)


#: Many parts without content: (codec, payload of about so many bytes).
MANY_PARTS: dict[str, tuple[Compression, Callable[[int], bytes]]] = {
    "gzip members": (Compression.GZIP, many(EMPTY_GZIP_MEMBER)),
    "zstd frames": (Compression.ZSTD, many(EMPTY_ZSTD_FRAME)),
    "zstd skippable frames": (Compression.ZSTD, many(SKIPPABLE_ZSTD_FRAME)),
    "zstd blocks": (Compression.ZSTD, zstd_empty_blocks),
    "xerial blocks": (Compression.SNAPPY, xerial_empty_blocks),
    "xerial headers": (Compression.SNAPPY, many(XERIAL_HEADER)),
}


def gzip_of_large_names(size: int) -> bytes:
    """One member whose header has a file name of `size` bytes."""
    out = BytesIO()
    with gzip.GzipFile("n" * size, "wb", fileobj=out, mtime=0) as member:
        member.write(b"content")
    return out.getvalue()


def zeros(kind: Compression, size: int) -> bytes:
    """`size` bytes of nothing, as small as the codec makes them."""
    if kind is Compression.ZSTD:
        block = (size // 800 << 3 | 2).to_bytes(3, "little") + b"\0"  # RLE blocks: 4 bytes each
        return b"\x28\xb5\x2f\xfd\0\x58" + block * 799 + (size - size // 800 * 799 << 3 | 3).to_bytes(3, "little") + b"\0"
    if kind is Compression.LZ4:
        packed: bytes = lz4.frame.compress(bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
        return packed
    if kind is Compression.SNAPPY:
        return bytes(snappy.compress_raw(bytes(size)))
    return compress(kind, bytes(size), 9)


def tiny_records(count: int) -> bytes:
    """So many records without key and value, of 7 bytes and more."""
    out = bytearray()
    empty = Record(0, 0, None, None)
    for index in range(count):
        encode_record(out, empty, index, 0)
    return bytes(out)
