"""Compressed payloads decompressed piece by piece: those that are large, or that consist of several parts.

A piece has `PIECE_BYTES` at most, only a block of snappy may be larger: its library knows no smaller unit. Between two pieces the caller
may do something else, and what it does not keep takes no memory. The work is linear in the bytes that come and in those that go:

    input     is fed in bounded pieces, because the libraries copy what they did not consume of it
    parts     gzip members, zstd frames and blocks, blocks and headers of Xerial's framing cost about a microsecond each, however small
              they are: a payload may have `parts_max` of them. Producers write parts of 32 KiB and more
    output    raises InvalidRecord beyond `max_bytes`, before the piece that goes beyond is handed out

Memory besides the input: three pieces. zstd needs its window, which is as large as the frame says, but no larger than what came out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Final

from minibroker.records.compression import (
    GZIP_WINDOW_BITS,
    Compression,
    broken,
    parts_max,
    snappy_blocks,
    too_large,
    too_many_parts,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

PIECE_BYTES: Final = 256 * 1024  #: of output
_INPUT_BYTES: Final = 64 * 1024
_FIRST_INPUT_BYTES: Final = 512  #: of a gzip member: doubled while the member goes on, so that a small one copies little


def decompressed_pieces(kind: Compression, data: Buffer, *, max_bytes: int) -> Iterator[bytes]:
    """Yield what `data` was before it was compressed; InvalidRecord when it is broken or becomes larger than `max_bytes`.

    Of NONE the pieces are copies of `data`.
    """
    left, view = max_bytes, memoryview(data)
    small: list[bytes] = []  #: pieces that are handed out together
    size = 0
    if kind is Compression.ZSTD:
        read = _zstd(view, max_bytes)
    else:
        read = snappy_blocks(view, max_bytes) if kind is Compression.SNAPPY else _PIECES[kind](view)
    for piece in read:
        left -= len(piece)
        if left < 0:
            raise too_large(kind, max_bytes)
        if size + len(piece) > PIECE_BYTES and size:
            yield b"".join(small)
            small.clear()
            size = 0
        small.append(piece)
        size += len(piece)
    if size:
        yield b"".join(small)


def joined(pieces: Iterator[bytes]) -> bytes:
    """All pieces as one, without a second copy of them."""
    first = next(pieces, b"")
    second = next(pieces, None)
    if second is None:
        return bytes(first)
    out = BytesIO()
    for piece in chain((first, second), pieces):
        out.write(piece)
    return out.getvalue()  # the buffer itself, which is not written again


def _uncompressed(data: memoryview) -> Iterator[bytes]:
    for position in range(0, len(data), PIECE_BYTES):
        yield bytes(data[position : position + PIECE_BYTES])


def _gzip(data: memoryview) -> Iterator[bytes]:
    import zlib  # noqa: PLC0415

    position = 0
    for _ in range(parts_max(len(data))):
        stream = zlib.decompressobj(GZIP_WINDOW_BITS)
        input_bytes, is_whole = _FIRST_INPUT_BYTES, False
        while not is_whole:
            fed = data[position : position + input_bytes]
            input_bytes = min(2 * input_bytes, _INPUT_BYTES)
            try:
                piece = stream.decompress(fed, PIECE_BYTES)
            except zlib.error as error:
                raise broken(Compression.GZIP, error) from None
            is_whole = stream.eof
            position += len(fed) - len(stream.unused_data if is_whole else stream.unconsumed_tail)
            if piece:
                yield piece
            elif not fed and not is_whole:
                raise broken(Compression.GZIP, "it ends early")
        if position == len(data):
            return
    raise too_many_parts(Compression.GZIP, len(data))


def _lz4(data: memoryview) -> Iterator[bytes]:
    from lz4 import frame  # noqa: PLC0415

    stream = frame.LZ4FrameDecompressor()
    position = 0
    while not stream.eof:
        fed = data[position : position + _INPUT_BYTES] if stream.needs_input else b""
        if stream.needs_input and not fed:
            raise broken(Compression.LZ4, "it ends early")
        position += len(fed)
        try:
            piece: bytes = stream.decompress(fed, max_length=PIECE_BYTES)
        except RuntimeError as error:
            raise broken(Compression.LZ4, error) from None
        if piece:
            yield piece
    if stream.unused_data or position < len(data):
        raise broken(Compression.LZ4, "it goes on after its end")


def _zstd(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    import zstandard  # noqa: PLC0415

    from minibroker.records.zstd_frame import MAX_WINDOW_BYTES, measure_frame  # noqa: PLC0415

    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)  # not one of the idle: it would keep a large window
    position, parts = 0, parts_max(len(data))
    while position < len(data):
        try:
            frame = measure_frame(data, position, parts)
            parts -= frame.part_count
            if frame.is_exact and frame.size_bound > max_bytes:
                raise too_large(Compression.ZSTD, max_bytes)  # before there is a window of that size
            if frame.size_bound:
                with decompressor.stream_reader(data[position : frame.end]) as reader:
                    while piece := reader.read(PIECE_BYTES):
                        yield piece
        except (ValueError, IndexError, zstandard.ZstdError) as error:
            raise broken(Compression.ZSTD, error) from None
        position = frame.end
        if parts <= 0 and position < len(data):
            raise too_many_parts(Compression.ZSTD, len(data))


_PIECES: dict[Compression, Callable[[memoryview], Iterator[bytes]]] = {
    Compression.NONE: _uncompressed,
    Compression.GZIP: _gzip,
    Compression.LZ4: _lz4,
}
