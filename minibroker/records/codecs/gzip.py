"""gzip: RFC 1952; several members are read as one payload."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from minibroker.records.compression import AT_ONCE_BYTES, AT_ONCE_CONTENT, INPUT_BYTES, PIECE_BYTES, broken, parts_max, too_many_parts

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WINDOW_BITS: Final = 31  #: zlib's code for a window of 32 KiB and a gzip header
_FIRST_INPUT_BYTES: Final = 512  #: of a member; doubled while the member continues, so that a small one copies little


def compress(data: Buffer, level: int | None) -> bytes:
    """Compress into one member; `level` is 1 to 9, None for zlib's default."""
    stream = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, _WINDOW_BITS)
    return stream.compress(data) + stream.flush()


def decompress_at_once(data: memoryview, max_bytes: int) -> bytes | None:
    """Return the content of a small payload of one member; None if `pieces` has to decompress it. Raises InvalidRecord."""
    if len(data) > AT_ONCE_BYTES:
        return None
    stream = zlib.decompressobj(_WINDOW_BITS)
    try:
        content = stream.decompress(data, min(max_bytes, AT_ONCE_CONTENT) + 1)
    except zlib.error as error:
        raise broken("gzip", error) from None
    return content if stream.eof and not stream.unused_data and len(content) <= max_bytes else None


def pieces(data: memoryview, max_bytes: int) -> Iterator[bytes]:  # noqa: ARG001  one signature for all codecs
    """Yield the content of all members. Raises InvalidRecord."""
    position = 0
    for _ in range(parts_max(len(data))):
        stream = zlib.decompressobj(_WINDOW_BITS)
        input_bytes, is_whole = _FIRST_INPUT_BYTES, False
        while not is_whole:
            fed = data[position : position + input_bytes]
            input_bytes = min(2 * input_bytes, INPUT_BYTES)
            try:
                piece = stream.decompress(fed, PIECE_BYTES)
            except zlib.error as error:
                raise broken("gzip", error) from None
            is_whole = stream.eof
            position += len(fed) - len(stream.unused_data if is_whole else stream.unconsumed_tail)
            if piece:
                yield piece
            elif not fed and not is_whole:
                raise broken("gzip", "it ends early")
        if position == len(data):
            return
    raise too_many_parts("gzip", len(data))
