"""How a key or value names its schema: by an id or GUID before its bytes, or by a GUID in a header.

    0, id (4 bytes), [message indexes], payload       Confluent's wire format
    1, GUID (16 bytes), [message indexes], payload
    payload; in the header `__key_schema_id` or `__value_schema_id`: 1, GUID, [message indexes]

Only Protobuf has message indexes: the way to a message in its file, from the outermost one. They are
zigzag varints after their count; a count of 0 means the first message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

INDEXES_MAX: Final = 100  #: nesting of messages
_ID_SIZE: Final = 5
_GUID_SIZE: Final = 17
_VARINT_MAX: Final = 5  #: bytes of a number of 32 bits

Header = tuple[str, bytes | None]


class FramingError(ValueError):
    """The bytes are cut, or no schema's id."""


class Framed(NamedTuple):
    """A key or value without its frame."""

    schema_id: int | str  #: a number, or a GUID
    rest: bytes  #: of the frame and the payload: message indexes where the schema is Protobuf
    payload: bytes | None  #: None: it is in `rest`, after the indexes

    def of_protobuf(self) -> tuple[tuple[int, ...], bytes]:
        """The message indexes and the payload. Raises FramingError."""
        indexes, end = read_indexes(self.rest)
        return indexes, self.rest[end:] if self.payload is None else self.payload

    def of_others(self) -> bytes:
        """The payload, if the schema is not Protobuf."""
        return self.rest if self.payload is None else self.payload


def split(content: bytes, headers: Iterable[Header] = (), part: str = "value") -> Framed | None:
    """Take a key or value (`part`) apart; None if it names no schema. Raises FramingError."""
    name = f"__{part}_schema_id"
    for key, value in headers:
        if key == name and value is not None:
            framed = _split(value)
            if framed is None:
                raise FramingError(f"the header {name} has no schema id")
            return framed._replace(payload=content)
    return _split(content)


def _split(content: bytes) -> Framed | None:
    if content[:1] == b"\0" and len(content) >= _ID_SIZE:
        return Framed(int.from_bytes(content[1:_ID_SIZE]), content[_ID_SIZE:], None)
    if content[:1] == b"\1" and len(content) >= _GUID_SIZE:
        return Framed(str(UUID(bytes=content[1:_GUID_SIZE])), content[_GUID_SIZE:], None)
    return None


def join(schema_id: int, payload: bytes, indexes: Sequence[int] | None = None) -> bytes:
    """Put the id before a payload, and the message indexes if it is Protobuf."""
    return b"\0" + schema_id.to_bytes(4) + (b"" if indexes is None else write_indexes(indexes)) + payload


def read_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """The message indexes that data starts with, and their size. Raises FramingError."""
    count, end = _read_varint(data, 0)
    if count == 0:
        return (0,), end
    if not 0 < count <= INDEXES_MAX:
        raise FramingError(f"{count} message indexes, at most {INDEXES_MAX} are allowed")
    indexes = []
    for _ in range(count):
        index, end = _read_varint(data, end)
        indexes.append(index)
    return tuple(indexes), end


def write_indexes(indexes: Sequence[int]) -> bytes:
    """The bytes of message indexes."""
    if tuple(indexes) == (0,):
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    """A zigzag varint, and where it ends."""
    number = shift = 0
    for position in range(start, min(len(data), start + _VARINT_MAX)):
        number |= (data[position] & 0x7F) << shift
        shift += 7
        if data[position] < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    raise FramingError("the message indexes end early")


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag of a number that is not negative
    content = bytearray()
    while number >= 0x80:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)
