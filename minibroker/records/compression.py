"""The codecs of record batches, each decompressed with a bound on its content.

    id  name    payload                                                            levels
    0   none    the records as they are
    1   gzip    RFC 1952; several members read as one                              1..9
    2   snappy  Xerial's blocks or one raw block
    3   lz4     LZ4 frame; written with independent blocks of 64 KiB               1..17
    4   zstd    RFC 8878; several frames and skippable ones read as one            -131072..22

`codecs/` has a module for each codec and its format. It is imported, with its library, at the first use. It takes limits and errors from
here.

A payload raises InvalidRecord if it breaks its codec's rules, ends early, has bytes after its end, or has more content than the bound.
Its CRC was right, so the producer built it like that, and sending it again would not help (a client sends again after CORRUPT_MESSAGE).
The same applies to a payload of more parts (gzip members, zstd frames and blocks, Xerial's blocks) than `parts_max`: each costs about a
microsecond, even a small one. Producers write parts of 32 KiB and more.

A payload that is large or has several parts is decompressed piece by piece. A piece has `PIECE_BYTES` at most; only a block of snappy may
be larger. Between two pieces the caller may do something else, and pieces that it does not keep take no memory.

Memory: `decompress` needs at most the bound, an eighth of it, and a copy of the input; sizes that the payload claims do not matter.
`decompressed_pieces` needs three pieces, and for zstd the frame's window, which is never larger than the content so far.
Time: linear in the sizes of payload and content. Source: org.apache.kafka.common.compress.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol, cast

from minibroker.errors import InvalidRecord, UnsupportedCompressionType

if TYPE_CHECKING:
    from typing_extensions import Buffer

AT_ONCE_BYTES: Final = 64 * 1024  #: of a payload that its library decompresses in one call
AT_ONCE_CONTENT: Final = 1024 * 1024  #: of the content of a small payload; a larger content is decompressed in pieces
PIECE_BYTES: Final = 256 * 1024  #: of output
INPUT_BYTES: Final = 64 * 1024  #: of input that a library gets in one call: libraries copy what they do not consume

MIN_PARTS: Final = 4096  #: members, frames and blocks that any payload may have
PART_BYTES: Final = 512  #: of a payload allow one more part


def parts_max(size: int) -> int:
    """Return how many members, frames and blocks a payload of `size` bytes may have."""
    return MIN_PARTS + size // PART_BYTES


def too_large(codec: str, max_bytes: int) -> InvalidRecord:
    """The error for a payload whose content is larger than its bound."""
    return InvalidRecord(f"a {codec} payload of more than {max_bytes} bytes when decompressed")


def broken(codec: str, reason: object) -> InvalidRecord:
    """The error for a payload that breaks the rules of its codec."""
    return InvalidRecord(f"a broken {codec} payload: {reason}")


def too_many_parts(codec: str, size: int) -> InvalidRecord:
    """The error for a payload of `size` bytes that consists of more than `parts_max` parts."""
    return broken(codec, f"{size} bytes in more than {parts_max(size)} parts")


MAX_DECOMPRESSED_BYTES: Final = 100 * 1024 * 1024  #: the default bound of one batch, as large as the largest request


class Compression(IntEnum):
    """A codec by its id in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, codec_id: int) -> Compression:
        """Return the codec with this id. Raises UnsupportedCompressionType if there is none."""
        if 0 <= codec_id < len(_CODECS):
            return _CODECS[codec_id]
        raise UnsupportedCompressionType(f"unknown compression type id {codec_id}")

    @classmethod
    def from_name(cls, name: str) -> Compression:
        """Return the codec that `compression.type` names: none (or uncompressed), gzip, snappy, lz4, zstd. Raises ValueError."""
        lowered = name.lower()
        for codec in _CODECS:
            if codec.name.lower() == lowered:
                return codec
        if lowered == "uncompressed":
            return cls.NONE
        raise ValueError(f"unknown compression type {name!r}")


_CODECS: Final = tuple(Compression)


class _Codec(Protocol):
    """A module of `codecs/`."""

    def compress(self, data: Buffer, level: int | None) -> bytes: ...

    def decompress_at_once(self, data: memoryview, max_bytes: int) -> bytes | None: ...

    def pieces(self, data: memoryview, max_bytes: int) -> Iterator[bytes]: ...


_imported: dict[Compression, _Codec] = {}


def _import_codec(kind: Compression) -> _Codec:
    codec = _imported[kind] = cast("_Codec", import_module(f"minibroker.records.codecs.{kind.name.lower()}"))
    return codec


def compress(kind: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` as in `compression.<codec>.level`, None for Kafka's default. NONE copies."""
    if kind is Compression.NONE:
        return bytes(data)
    return (_imported.get(kind) or _import_codec(kind)).compress(data, level)


def decompress(kind: Compression, data: Buffer, *, max_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the content of `data`. Raises InvalidRecord if it is broken or would be larger than `max_bytes`. NONE copies."""
    view = memoryview(data)
    if kind is Compression.NONE:
        if len(view) > max_bytes:
            raise too_large("none", max_bytes)
        return bytes(view)
    content = (_imported.get(kind) or _import_codec(kind)).decompress_at_once(view, max_bytes)
    return _joined(decompressed_pieces(kind, view, max_bytes=max_bytes)) if content is None else content


def decompressed_pieces(kind: Compression, data: Buffer, *, max_bytes: int) -> Iterator[bytes]:
    """Yield the content of `data` in pieces; of NONE, copies. Raises InvalidRecord before a piece that would exceed `max_bytes`."""
    left, view = max_bytes, memoryview(data)
    small: list[bytes] = []  #: pieces that are yielded together
    size = 0
    found = (_imported.get(kind) or _import_codec(kind)).pieces(view, max_bytes) if kind else _uncompressed_pieces(view)
    for piece in found:
        left -= len(piece)
        if left < 0:
            raise too_large(kind.name.lower(), max_bytes)
        if size + len(piece) > PIECE_BYTES and size:
            yield b"".join(small)
            small.clear()
            size = 0
        small.append(piece)
        size += len(piece)
    if size:
        yield b"".join(small)


def _uncompressed_pieces(data: memoryview) -> Iterator[bytes]:
    for position in range(0, len(data), PIECE_BYTES):
        yield bytes(data[position : position + PIECE_BYTES])


def _joined(pieces: Iterator[bytes]) -> bytes:
    """Join all pieces without copying them twice."""
    first = next(pieces, b"")
    second = next(pieces, None)
    if second is None:
        return bytes(first)
    out = BytesIO()
    for piece in chain((first, second), pieces):
        out.write(piece)
    return out.getvalue()  # the buffer itself, which is not written again
