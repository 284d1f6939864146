"""The library that compresses and decompresses single zstd frames.

It is zstandard, or `compression.zstd` of Python 3.14 and newer where zstandard is not installed. The functions of both have the same
bounds.
zstd.py measures a frame before it calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

from minibroker.records.compression import PIECE_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


MAX_WINDOW_BYTES = 128 * 1024 * 1024  #: the Java client's zstd accepts a window log of 27


class ZstdLibrary(NamedTuple):
    """What zstd.py uses of a library. The functions raise `error` for a broken frame."""

    compress: Callable[[Buffer, int], bytes]  #: (data, level): one frame
    decompress_frame: Callable[[memoryview, int], bytes]  #: (frame, max_bytes): its content; an error if it has more bytes
    frame_pieces: Callable[[memoryview], Iterator[bytes]]  #: its content, at most PIECE_BYTES at a time
    error: type[Exception]


def from_zstandard() -> ZstdLibrary:
    """Return the functions of zstandard. Raises ImportError."""
    zstandard = import_module("zstandard")
    #: Decompressors that are not in use: creating one costs 8 us, and two threads must not share one. One that failed is dropped.
    idle: list[Any] = []

    def compress(data: Buffer, level: int) -> bytes:
        return bytes(zstandard.ZstdCompressor(level=level).compress(memoryview(data)))

    def decompress_frame(frame: memoryview, max_bytes: int) -> bytes:
        decompressor = idle.pop() if idle else zstandard.ZstdDecompressor()
        # The library relies on a size in the header and fails above `max_output_size` if there is no size.
        content: bytes = decompressor.decompress(frame, max_output_size=max_bytes)
        idle.append(decompressor)
        return content

    def frame_pieces(frame: memoryview) -> Iterator[bytes]:
        decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)  # not an idle one: it would keep a large window
        with decompressor.stream_reader(frame) as reader:
            while piece := reader.read(PIECE_BYTES):
                yield piece

    return ZstdLibrary(compress, decompress_frame, frame_pieces, zstandard.ZstdError)


def from_standard_library() -> ZstdLibrary:
    """Return the functions of `compression.zstd`. Raises ImportError before Python 3.14."""
    zstd = import_module("compression.zstd")

    def compress(data: Buffer, level: int) -> bytes:
        return bytes(zstd.compress(data, level))

    def decompress_frame(frame: memoryview, max_bytes: int) -> bytes:
        out = BytesIO()  # the library joins its own buffers by a copy of all; here one piece is copied at a time
        for piece in frame_pieces(frame):
            if out.tell() + len(piece) > max_bytes:
                raise zstd.ZstdError("the content is larger")
            out.write(piece)
        return out.getvalue()

    def frame_pieces(frame: memoryview) -> Iterator[bytes]:
        decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: MAX_WINDOW_BYTES.bit_length() - 1})
        piece = decompressor.decompress(frame, PIECE_BYTES)
        while piece:
            yield piece
            piece = b"" if decompressor.eof else decompressor.decompress(b"", PIECE_BYTES)
        if not decompressor.eof:
            raise zstd.ZstdError("the frame ends early")

    return ZstdLibrary(compress, decompress_frame, frame_pieces, zstd.ZstdError)


def find_library() -> ZstdLibrary:
    """Return the functions of the first library that is installed. Raises ImportError if none is."""
    try:
        return from_zstandard()
    except ModuleNotFoundError:
        return from_standard_library()
