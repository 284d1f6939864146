"""Headers of requests and responses.

    request   v0  int16 api_key, int16 api_version, int32 correlation_id      only ControlledShutdown 0
              v1  v0, nullable string client_id
              v2  v1, tagged fields                                           flexible versions
    response  v0  int32 correlation_id
              v1  v0, tagged fields                                           flexible versions, except ApiVersions

The client_id keeps its int16 length in v2: a broker must be able to read it before it knows the version (KIP-482). The response
of ApiVersions always has header v0, because its client does not know the broker's versions yet (KIP-511).

Frames of the protocol, in both directions: `int32 size`, then `size` bytes.

A size is compared with a limit (socket.request.max.bytes for a broker) before memory is allocated for it. The first four bytes
of a web browser read as 1.1 GB, those of a TLS client as 369 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

from minibroker.errors import WireError
from minibroker.wire.api import Api
from minibroker.wire.primitives import EncodeError, skip_tagged_fields
from minibroker.wire.schema import Buffer, Int16, Int32, String, field, struct

CONTROLLED_SHUTDOWN: Final = 7
API_VERSIONS: Final = 18

_SHORT = Struct(">hhi")
_REQUEST = Struct(">hhih")
_INT32 = Struct(">i")
_NO_TAGS: Final = b"\0"


@struct
class RequestHeader:
    """The header of a request, of any version."""

    api_key: Int16
    api_version: Int16
    correlation_id: Int32  #: the response repeats it
    client_id: String | None = field(default=None)


def request_header_version(api: Api, version: int) -> int:
    """Return 0, 1 or 2."""
    if api.key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if api.flexible(version) else 1


def response_header_version(api: Api, version: int) -> int:
    """Return 0 or 1."""
    return 1 if api.flexible(version) and api.key != API_VERSIONS else 0


def decode_request_header(frame: Buffer, flexible_of: Callable[[int, int], bool]) -> tuple[RequestHeader, int]:
    """Return a header v1 or v2, and the position of the body.

    Args:
        frame: one request without its size prefix.
        flexible_of: (api_key, api_version) -> whether that version is flexible; raises WireError for an unknown key.

    Raises:
        WireError: the frame is cut or its client_id is invalid; also what `flexible_of` raises.
    """
    header: Any = object.__new__(RequestHeader)
    if len(frame) < _REQUEST.size:
        raise WireError(f"request of {len(frame)} bytes has no header")
    header.api_key, header.api_version, header.correlation_id, length = _REQUEST.unpack_from(frame)
    flexible = flexible_of(header.api_key, header.api_version)
    position = _REQUEST.size
    header.client_id = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise WireError(f"client_id of {length} bytes in a request of {len(frame)} bytes")
        try:
            header.client_id = str(frame[_REQUEST.size : position], "utf-8")
        except UnicodeDecodeError:
            raise WireError("client_id is not UTF-8") from None
    elif length != -1:
        raise WireError(f"client_id of length {length}")
    return header, skip_tagged_fields(frame, position) if flexible else position


def encode_request_header(header: RequestHeader, header_version: int) -> bytes:
    """Encode a header. Raises EncodeError if a number or the client_id does not fit."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    numbers = (header.api_key, header.api_version, header.correlation_id)
    try:
        if header_version == 0:
            return _SHORT.pack(*numbers)
        encoded = _REQUEST.pack(*numbers, -1 if header.client_id is None else len(client_id)) + client_id
    except struct_error as error:
        raise EncodeError(f"{header}: {error}") from None
    return encoded + _NO_TAGS if header_version >= 2 else encoded


def encode_response_header(correlation_id: int, header_version: int) -> bytes:
    """Encode a response header."""
    encoded = _INT32.pack(correlation_id)
    return encoded + _NO_TAGS if header_version >= 1 else encoded


def decode_response_header(frame: Buffer, header_version: int) -> tuple[int, int]:
    """Return the correlation id and the position of the body. Raises WireError if the frame is cut."""
    if len(frame) < _INT32.size:
        raise WireError(f"response of {len(frame)} bytes has no header")
    correlation_id: int = _INT32.unpack_from(frame)[0]
    return correlation_id, skip_tagged_fields(frame, _INT32.size) if header_version >= 1 else _INT32.size


PREFIX_SIZE: Final = 4

_SIZE = Struct(">i")
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ", b"HTTP")
_TLS_RECORDS: Final = (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03")


class FrameSizeError(WireError):
    """The size of a frame is not positive, or above the limit."""


def frame_size(data: Buffer, position: int, max_size: int) -> int:
    """Return the size of the frame whose prefix is at `position`, from 1 to `max_size`.

    Raises FrameSizeError, which describes the bytes.
    """
    size: int = _SIZE.unpack_from(data, position)[0]
    if not 0 < size <= max_size:
        looks_like = describe(bytes(data[position : position + 16]))
        raise FrameSizeError(f"frame size {size} is not within 1 to {max_size}: {looks_like}")
    return size


def describe(first: bytes) -> str:
    """Describe the first bytes of a peer that does not speak Kafka's protocol."""
    if first[:4] in _HTTP:
        return "the peer speaks HTTP, not Kafka's protocol"
    if first[:2] in _TLS_RECORDS:
        return "the peer speaks TLS, this side does not"
    if first[:4] == b"SSH-":
        return "the peer speaks SSH"
    return f"no Kafka frame starts with {first.hex(' ')}"


def with_size(chunks: list[Buffer]) -> list[Buffer]:
    """Return a frame of these chunks: the chunks with their size before them."""
    return [_SIZE.pack(sum(map(len, chunks))), *chunks]
