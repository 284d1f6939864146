"""lz4: LZ4 frames, written with independent blocks of 64 KiB. legacy.py has the header checksum of message format v0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from lz4 import frame

from minibroker.records.compression import AT_ONCE_BYTES, INPUT_BYTES, PIECE_BYTES, broken

if TYPE_CHECKING:
    from typing_extensions import Buffer

_DEFAULT_LEVEL: Final = 9  #: Kafka's number for the fast compressor
_MAX_LEVEL: Final = 12  #: the library's; Kafka's levels go up to 17
_CHUNK_BYTES: Final = 64 * 1024


def compress(data: Buffer, level: int | None) -> bytes:
    """Compress into one frame; `level` is 1 to 17, None for Kafka's default."""
    level = 0 if level is None or level == _DEFAULT_LEVEL else min(level, _MAX_LEVEL)
    packed: bytes = frame.compress(data, compression_level=level, block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
    return packed


def decompress_at_once(data: memoryview, max_bytes: int) -> bytes | None:
    """Return the content of a small frame; None if `pieces` has to decompress it. Raises InvalidRecord."""
    if len(data) > AT_ONCE_BYTES:
        return None
    stream = frame.LZ4FrameDecompressor()
    try:
        content: bytes = stream.decompress(data, max_length=min(max_bytes, 4 * len(data) + _CHUNK_BYTES) + 1)
    except RuntimeError as error:
        raise broken("lz4", error) from None
    return content if stream.eof and not stream.unused_data and len(content) <= max_bytes else None


def pieces(data: memoryview, max_bytes: int) -> Iterator[bytes]:  # noqa: ARG001  one signature for all codecs
    """Yield the content of the one frame. Raises InvalidRecord."""
    stream = frame.LZ4FrameDecompressor()
    position = 0
    while not stream.eof:
        fed = data[position : position + INPUT_BYTES] if stream.needs_input else b""
        if stream.needs_input and not fed:
            raise broken("lz4", "it ends early")
        position += len(fed)
        try:
            piece: bytes = stream.decompress(fed, max_length=PIECE_BYTES)
        except RuntimeError as error:
            raise broken("lz4", error) from None
        if piece:
            yield piece
    if stream.unused_data or position < len(data):
        raise broken("lz4", "bytes follow after its end")
