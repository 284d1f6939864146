"""Primitives of the protocol: big-endian integers, varints, and values with a length before them.

    int8 int16 int32 int64 uint16 uint32 float64   big-endian, two's complement; bool is an int8, 0 is false
    uuid                     16 bytes
    unsigned varint          groups of 7 bits, lowest first, bit 7 set on all but the last; 5 bytes at most
    varint                   signed, as zigzag: 0, -1, 1, -2 ... are 0, 1, 2, 3 ...
    string                   int16 length, UTF-8         compact: unsigned varint length + 1; 0 is null
    bytes, records           int32 length, bytes         compact: as above
    array                    int32 count, elements       compact: as above
    tagged fields            unsigned varint count; each: unsigned varint tag (ascending), unsigned varint size, bytes

A length or count of -1 is null. Any other negative one is an error, and so is one that the remaining bytes cannot hold.
Kafka: org.apache.kafka.common.protocol.types.Type, ByteUtils; compact forms and tagged fields: KIP-482.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final

from minibroker.errors import WireError
from minibroker.wire.schema import Buffer

#: kind -> format character of `struct`, for kinds that are one number
NUMBERS: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "bool": "?", "float64": "d"}
NUMBER_STRUCTS: Final = {kind: Struct(">" + character) for kind, character in NUMBERS.items()}
UUID_SIZE: Final = 16
MAX_STRING_SIZE: Final = 32767  #: in both forms, as in Kafka
TAGGED_FIELDS_MAX: Final = 1000  #: in one struct or header; unknown ones are skipped one by one, and Kafka has a few
MAX_VARINT_BYTES: Final = 5

_INT16: Final = NUMBER_STRUCTS["int16"]
_INT32: Final = NUMBER_STRUCTS["int32"]


class EncodeError(ValueError):
    """The format cannot carry a value. This is a mistake of this process, never of the peer."""


def read_unsigned_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it. Raises WireError if it is cut, longer than 5 bytes or wider than 32 bits."""
    value = shift = 0
    for byte in data[position : position + MAX_VARINT_BYTES]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if value >> 32:
                break
            return value, position + shift // 7
    raise WireError("varint is cut" if shift < 7 * MAX_VARINT_BYTES else "varint is too long")


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Return a signed varint of 32 bits, and the position after it."""
    value, position = read_unsigned_varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def skip_tagged_fields(data: Buffer, position: int) -> int:
    """Return the position after unknown tagged fields. Raises WireError if they are malformed."""
    if position < len(data) and data[position] == 0:
        return position + 1
    reader = Reader(data, position)
    for _ in reader.tagged_fields():
        pass
    return reader.position


def unsigned_varint(value: int) -> bytes:
    """Encode an unsigned varint in its shortest form."""
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    """Encode a signed varint of 32 bits."""
    return unsigned_varint((value << 1) ^ (value >> 31))


@lru_cache(maxsize=1024)
def uuid_of(data: bytes) -> uuid.UUID:
    """Return the UUID of 16 bytes. Cached: a broker sees few different ones, and uuid.UUID is slow."""
    return uuid.UUID(bytes=data)


class Reader:
    """Reads values one after another. Each failure is a WireError with its cause."""

    __slots__ = ("data", "position")

    def __init__(self, data: Buffer, position: int = 0) -> None:
        self.data = memoryview(data)
        self.position = position

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.position

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes, as a view."""
        if size > self.remaining:
            raise WireError(f"{size} bytes wanted, {max(self.remaining, 0)} remain")
        start, self.position = self.position, self.position + size
        return self.data[start : self.position]

    def number(self, kind: str) -> int | float:
        """Return a value of one of NUMBERS."""
        form = NUMBER_STRUCTS[kind]
        value: int | float = form.unpack(self.take(form.size))[0]
        return value

    def unsigned_varint(self) -> int:
        """Return an unsigned varint of at most 5 bytes."""
        value, self.position = read_unsigned_varint(self.data, self.position)
        return value

    def length(self, *, compact: bool, wide: bool) -> int | None:
        """Return a length or count, None for null. `wide` is int32, else int16; the compact form is the same for both."""
        if compact:
            length = self.unsigned_varint() - 1
        else:
            form = _INT32 if wide else _INT16
            length = form.unpack(self.take(form.size))[0]
        if length < -1:
            raise WireError(f"length {length}")
        return None if length == -1 else length

    def string(self, size: int) -> str:
        """Read UTF-8 of `size` bytes."""
        if size > MAX_STRING_SIZE:
            raise WireError(f"string of {size} bytes")
        try:
            return str(self.take(size), "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(f"not UTF-8: {error.reason} at byte {error.start}") from None

    def count(self, count: int, min_size: int) -> int:
        """Check a count of elements, of at least `min_size` bytes each, against the remaining bytes."""
        if count * min_size > self.remaining:
            raise WireError(f"{count} elements cannot be in {self.remaining} bytes")
        return count

    def tagged_fields(self) -> Iterator[tuple[int, Reader]]:
        """Read the tagged fields that are present, as (tag, its bytes); tags must ascend."""
        previous = -1
        count = self.count(self.unsigned_varint(), 2)
        if count > TAGGED_FIELDS_MAX:
            raise WireError(f"{count} tagged fields, and no message has more than {TAGGED_FIELDS_MAX}")
        for _ in range(count):
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            if tag <= previous:
                raise WireError(f"tag {tag} after tag {previous}")
            yield tag, Reader(self.take(size))
            previous = tag


def length_of(length: int | None, *, compact: bool, wide: bool) -> bytes:
    """Encode a length or count; None is null."""
    if compact:
        return unsigned_varint(0 if length is None else length + 1)
    try:
        return (_INT32 if wide else _INT16).pack(-1 if length is None else length)
    except struct_error:
        raise EncodeError(f"length {length}") from None
