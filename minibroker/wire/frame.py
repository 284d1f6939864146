"""Frames: `int32 size` and so many bytes, in both directions.

A size is believed only after it was held against a limit (socket.request.max.bytes for a broker), so that no memory is taken
for what four wrong bytes claim: those of a web browser read as 1.1 GB, those of a TLS client as 369 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from minibroker.errors import WireError
from minibroker.wire.schema import Buffer

PREFIX_SIZE: Final = 4

_SIZE = Struct(">i")
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")
_TLS_RECORDS: Final = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


class FrameSizeError(WireError):
    """A size field that cannot be meant: not positive, or above the limit."""


def frame_size(data: Buffer, position: int, max_size: int) -> int:
    """The size of the frame whose prefix is at `position`: 1 to `max_size`; FrameSizeError says what the bytes look like."""
    size: int = _SIZE.unpack_from(data, position)[0]
    if not 0 < size <= max_size:
        looks_like = describe(bytes(data[position : position + 16]))
        raise FrameSizeError(f"frame size {size} is not within 1 to {max_size}: {looks_like}")
    return size


def describe(first: bytes) -> str:
    """What the first bytes of a peer that does not speak our protocol look like."""
    if first[:4] in _HTTP:
        return "an HTTP message: this is a Kafka port, not a web server's"
    if first[:2] in _TLS_RECORDS:
        return "TLS: the peer speaks SSL, this listener is plain text"
    if first[:4] == b"SSH-":
        return "an SSH client"
    return f"no Kafka frame begins with {first.hex(' ')}"


def with_size(chunks: list[Buffer]) -> list[Buffer]:
    """A frame of these chunks: the same with the size before them."""
    return [_SIZE.pack(sum(map(len, chunks))), *chunks]


class FrameSplitter:
    """Cuts a stream of bytes into frames; for peers that need not be fast."""

    __slots__ = ("_data", "_max_size")

    def __init__(self, max_size: int) -> None:
        self._data = bytearray()
        self._max_size = max_size

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not whole yet, its prefix included."""
        return len(self._data)

    def feed(self, data: Buffer) -> Iterator[bytes]:
        """Frames that are whole now, without their sizes; FrameSizeError ends the stream."""
        self._data += data
        while len(self._data) >= PREFIX_SIZE:
            end = PREFIX_SIZE + frame_size(self._data, 0, self._max_size)
            if len(self._data) < end:
                return
            frame = bytes(self._data[PREFIX_SIZE:end])
            del self._data[:end]
            yield frame
