"""Frames of the protocol, in both directions: `int32 size`, then `size` bytes.

A size is compared with a limit (socket.request.max.bytes for a broker) before memory is allocated for it. The first four bytes
of a web browser read as 1.1 GB, those of a TLS client as 369 MB.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from minibroker.errors import WireError
from minibroker.wire.schema import Buffer

PREFIX_SIZE: Final = 4

_SIZE = Struct(">i")
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")
_TLS_RECORDS: Final = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


class FrameSizeError(WireError):
    """The size of a frame is not positive, or above the limit."""


def frame_size(data: Buffer, position: int, max_size: int) -> int:
    """The size of the frame whose prefix is at `position`: 1 to `max_size`; FrameSizeError says what the bytes look like."""
    size: int = _SIZE.unpack_from(data, position)[0]
    if not 0 < size <= max_size:
        looks_like = describe(bytes(data[position : position + 16]))
        raise FrameSizeError(f"frame size {size} is not within 1 to {max_size}: {looks_like}")
    return size


def describe(first: bytes) -> str:
    """Describe the first bytes of a peer that does not speak Kafka's protocol."""
    if first[:4] in _HTTP:
        return "an HTTP message: this is a Kafka port, not a web server's"
    if first[:2] in _TLS_RECORDS:
        return "TLS: the peer speaks SSL, this listener is plain text"
    if first[:4] == b"SSH-":
        return "an SSH client"
    return f"no Kafka frame begins with {first.hex(' ')}"


def with_size(chunks: list[Buffer]) -> list[Buffer]:
    """Return a frame of these chunks: the chunks with their size before them."""
    return [_SIZE.pack(sum(map(len, chunks))), *chunks]
