"""The codecs of record batches, each decompressed with a bound on what it may become.

    id  name    payload                                                            levels
    0   none    the records as they are
    1   gzip    RFC 1952; several members read as one                              1..9
    2   snappy  Xerial's blocks (below) or one raw block
    3   lz4     LZ4 frame; written with independent blocks of 64 KiB               1..17
    4   zstd    RFC 8878; several frames and skippable ones read as one            -131072..22

Xerial's framing: magic 82 "SNAPPY" 00, int32 version 1, int32 compatible version 1; then blocks, each an int32 size and a raw snappy
block. The header may stand again between blocks, where streams were joined. Without the magic the payload is one raw block.

A payload that breaks its codec's rules, ends early, goes on after its end or would become larger than the bound raises InvalidRecord:
its CRC was right, so its producer made it so, and sending it again will not help (CORRUPT_MESSAGE would ask for that).
So does one that consists of more parts (gzip members, zstd frames and blocks, Xerial's blocks) than `parts_max`: each costs a call.
A payload that is large or has several parts is decompressed by pieces.py. Memory: the bound and an eighth of it beside a copy of the
input, whatever sizes the payload claims. Time is linear in the sizes of payload and content.

Each library is imported at the first use of its codec. Sources: org.apache.kafka.common.compress, xerial's SnappyInputStream.
"""

from __future__ import annotations

from enum import IntEnum
from io import BytesIO
from typing import TYPE_CHECKING

from minibroker.errors import InvalidRecord, UnsupportedCompressionType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from typing_extensions import Buffer
    from zstandard import ZstdDecompressor

MAX_DECOMPRESSED_BYTES = 100 * 1024 * 1024  #: the default bound of one batch, as large as the largest request
AT_ONCE_BYTES = 64 * 1024  #: of a payload in gzip or lz4 that is given to its library in one call

MIN_PARTS = 4096  #: members, frames and blocks that any payload may have
PART_BYTES = 512  #: ... and one more for each so many bytes of it

_AT_ONCE_CONTENT = 1024 * 1024  #: of a small payload: what becomes larger is done in pieces

XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER = XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
XERIAL_BLOCK_BYTES = 32 * 1024  #: records in one block, as the Java client writes them
SNAPPY_MAX_RATIO = 22  #: a copy of 64 bytes takes 3

GZIP_WINDOW_BITS = 31  #: zlib's way to say: 32 KiB window, gzip header

LZ4_DEFAULT_LEVEL = 9  #: Kafka's number for the fast compressor
LZ4_MAX_LEVEL = 12  #: the library's; Kafka counts to 17
LZ4_CHUNK_BYTES = 64 * 1024

ZSTD_DEFAULT_LEVEL = 3


class Compression(IntEnum):
    """A codec by its id in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, codec_id: int) -> Compression:
        """The codec with this id; UnsupportedCompressionType when there is none."""
        if 0 <= codec_id < len(_CODECS):
            return _CODECS[codec_id]
        raise UnsupportedCompressionType(f"unknown compression type id {codec_id}")

    @classmethod
    def from_name(cls, name: str) -> Compression:
        """The codec that `compression.type` names: none (or uncompressed), gzip, snappy, lz4, zstd. ValueError for another."""
        lowered = name.lower()
        for codec in _CODECS:
            if codec.name.lower() == lowered:
                return codec
        if lowered == "uncompressed":
            return cls.NONE
        raise ValueError(f"unknown compression type {name!r}")


_CODECS = tuple(Compression)


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` compressed; `level` as in `compression.<codec>.level`, None for Kafka's default. NONE copies."""
    return _COMPRESS[kind](data, level)


def decompress(kind: Compression, data: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """What `data` was before `compress`; InvalidRecord when it is broken or would be larger than `max_bytes`. NONE copies."""
    return _DECOMPRESS[kind](memoryview(data), max_bytes)


def parts_max(size: int) -> int:
    """How many members, frames and blocks a payload of `size` bytes may have."""
    return MIN_PARTS + size // PART_BYTES


def too_large(kind: Compression, max_bytes: int) -> InvalidRecord:
    """The answer to a payload beyond its bound."""
    return InvalidRecord(f"a {kind.name.lower()} payload of more than {max_bytes} bytes when decompressed")


def broken(kind: Compression, reason: object) -> InvalidRecord:
    """The answer to a payload that breaks the rules of its codec."""
    return InvalidRecord(f"a broken {kind.name.lower()} payload: {reason}")


def too_many_parts(kind: Compression, size: int) -> InvalidRecord:
    """The answer to a payload of `size` bytes that consists of more than `parts_max` parts."""
    return broken(kind, f"{size} bytes in more than {parts_max(size)} parts")


def _copy(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001  one signature for all codecs
    return bytes(data)


def _copy_back(data: memoryview, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise too_large(Compression.NONE, max_bytes)
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    import zlib  # noqa: PLC0415

    stream = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION if level is None else level, zlib.DEFLATED, GZIP_WINDOW_BITS)
    return stream.compress(data) + stream.flush()


def _gunzip(data: memoryview, max_bytes: int) -> bytes:
    import zlib  # noqa: PLC0415

    if len(data) <= AT_ONCE_BYTES:
        stream = zlib.decompressobj(GZIP_WINDOW_BITS)
        try:
            content = stream.decompress(data, min(max_bytes, _AT_ONCE_CONTENT) + 1)
        except zlib.error as error:
            raise broken(Compression.GZIP, error) from None
        if stream.eof and not stream.unused_data and len(content) <= max_bytes:
            return content
    return _in_pieces(Compression.GZIP, data, max_bytes)


def _in_pieces(kind: Compression, data: memoryview, max_bytes: int) -> bytes:
    from minibroker.records.pieces import decompressed_pieces, joined  # noqa: PLC0415  it imports this module, and is seldom needed

    return joined(decompressed_pieces(kind, data, max_bytes=max_bytes))


def _snappy(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001  snappy has no levels
    from cramjam import snappy  # noqa: PLC0415

    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(bytes(view[start : start + XERIAL_BLOCK_BYTES])))
        out += len(block).to_bytes(4)
        out += block
    return bytes(out)


def _unsnappy(data: memoryview, max_bytes: int) -> bytes:
    if len(data) <= AT_ONCE_BYTES:
        return b"".join(snappy_blocks(data, max_bytes))
    return _in_pieces(Compression.SNAPPY, data, max_bytes)


def snappy_blocks(data: memoryview, max_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of a payload, decompressed: of Xerial's framing, or the raw one that there is."""
    from cramjam import DecompressionError, snappy  # noqa: PLC0415

    try:
        if data[:8] == XERIAL_MAGIC:
            yield from _xerial_blocks(snappy, data, max_bytes)
        else:
            yield _snappy_block(snappy, data, max_bytes, max_bytes)
    except (DecompressionError, ValueError) as error:
        raise broken(Compression.SNAPPY, error) from None


def _xerial_blocks(snappy: ModuleType, data: memoryview, max_bytes: int) -> Iterator[bytes]:
    position, end, left = 0, len(data), max_bytes
    for _ in range(parts_max(end)):
        if position >= end:
            return
        if data[position : position + 8] == XERIAL_MAGIC:
            if data[position : position + 16] != XERIAL_HEADER:
                raise broken(Compression.SNAPPY, "a framing of another version")
            position += 16
            continue
        start = position + 4
        size = int.from_bytes(data[position:start])
        position = start + size
        if position > end:
            raise broken(Compression.SNAPPY, f"a block of {size} bytes where {max(end - start, 0)} remain")
        content = _snappy_block(snappy, data[start:position], left, max_bytes)
        left -= len(content)
        yield content
    if position < end:
        raise too_many_parts(Compression.SNAPPY, end)


def _snappy_block(snappy: ModuleType, block: memoryview, left: int, max_bytes: int) -> bytes:
    """One raw block, which may become `left` of `max_bytes`; its claim is judged before any memory is taken."""
    size: int = snappy.decompress_raw_len(block)
    if size > left:
        raise too_large(Compression.SNAPPY, max_bytes)
    if size > SNAPPY_MAX_RATIO * len(block):
        raise broken(Compression.SNAPPY, f"{len(block)} bytes claim to be {size}")
    if size <= _AT_ONCE_CONTENT:
        return bytes(snappy.decompress_raw(block, output_len=size))
    out = BytesIO(bytes(size))  # decompressed in place: a large block is not copied
    with out.getbuffer() as view:
        snappy.decompress_raw_into(block, view)
    return out.getvalue()


def _lz4(data: Buffer, level: int | None) -> bytes:
    from lz4 import frame  # noqa: PLC0415

    level = 0 if level is None or level == LZ4_DEFAULT_LEVEL else min(level, LZ4_MAX_LEVEL)
    packed: bytes = frame.compress(data, compression_level=level, block_size=frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
    return packed


def _unlz4(data: memoryview, max_bytes: int) -> bytes:
    from lz4 import frame  # noqa: PLC0415

    if len(data) <= AT_ONCE_BYTES:
        stream = frame.LZ4FrameDecompressor()
        try:
            content: bytes = stream.decompress(data, max_length=min(max_bytes, 4 * len(data) + LZ4_CHUNK_BYTES) + 1)
        except RuntimeError as error:
            raise broken(Compression.LZ4, error) from None
        if stream.eof and not stream.unused_data and len(content) <= max_bytes:
            return content
    return _in_pieces(Compression.LZ4, data, max_bytes)


def _zstd(data: Buffer, level: int | None) -> bytes:
    import zstandard  # noqa: PLC0415

    return zstandard.ZstdCompressor(level=ZSTD_DEFAULT_LEVEL if level is None else level).compress(memoryview(data))


#: Decompressors that nobody uses now: making one costs 8 us, and two threads must not share one. Those that failed are dropped.
_idle_zstd: list[ZstdDecompressor] = []


def _unzstd(data: memoryview, max_bytes: int) -> bytes:
    import zstandard  # noqa: PLC0415

    from minibroker.records.zstd_frame import measure_frame  # noqa: PLC0415

    decompressor = _idle_zstd.pop() if _idle_zstd else zstandard.ZstdDecompressor()
    try:
        end, size_bound, is_exact, _ = measure_frame(data, 0, parts_max(len(data)))
        if end < len(data):
            return _in_pieces(Compression.ZSTD, data, max_bytes)
        if is_exact and size_bound > max_bytes:
            raise too_large(Compression.ZSTD, max_bytes)
        # The library trusts a size in the header and fails above `max_output_size` if there is no size.
        content = decompressor.decompress(data, max_output_size=min(size_bound, max_bytes)) if size_bound else b""
    except (ValueError, IndexError, zstandard.ZstdError) as error:
        raise broken(Compression.ZSTD, f"{error}, with a bound of {max_bytes} bytes") from None
    _idle_zstd.append(decompressor)
    return content


_COMPRESS: dict[Compression, Callable[[Buffer, int | None], bytes]] = {
    Compression.NONE: _copy,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
_DECOMPRESS: dict[Compression, Callable[[memoryview, int], bytes]] = {
    Compression.NONE: _copy_back,
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
