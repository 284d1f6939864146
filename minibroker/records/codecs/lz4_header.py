"""The header checksum of LZ4 frames in message format v0, which differs from the LZ4 specification.

    position  size  field
           0     4  magic             04 22 4D 18
           4     1  flags             bit 3: a content size follows; bit 0: a dictionary id follows
           5     1  block descriptor
           6   0-8  content size      8 bytes, if the flags say so
                0-4  dictionary id    4 bytes, if the flags say so
                 1  checksum          second byte of xxHash32 (seed 0) of everything from the flags up to here

The first Java clients included the magic in the checksum. Their readers expect that, and later readers must ignore the byte (KAFKA-3160,
KIP-57). Format v1 is correct. Source: org.apache.kafka.common.compress.Lz4BlockOutputStream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker.errors import InvalidRecord

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FLAGS = 4
_HAS_CONTENT_SIZE = 0x08
_HAS_DICTIONARY = 0x01
_MASK = 0xFFFFFFFF
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)


def with_right_checksum(frame: Buffer) -> bytearray:
    """Return a copy of `frame` with the header checksum of the LZ4 specification. Raises InvalidRecord if it is shorter than its header."""
    return _with_checksum(frame, _FLAGS)


def with_old_checksum(frame: Buffer) -> bytearray:
    """Return a copy of `frame` with the header checksum that readers of message format v0 expect; it must have no content size."""
    return _with_checksum(frame, 0)


def _with_checksum(frame: Buffer, start: int) -> bytearray:
    data = bytearray(frame)
    flags = data[_FLAGS] if len(data) > _FLAGS else 0
    position = _FLAGS + 2 + (8 if flags & _HAS_CONTENT_SIZE else 0) + (4 if flags & _HAS_DICTIONARY else 0)
    if position >= len(data):
        raise InvalidRecord(f"a broken lz4 payload: {len(data)} bytes are less than its header")
    data[position] = xxhash32_short(data[start:position]) >> 8 & 0xFF
    return data


def xxhash32_short(data: Buffer) -> int:
    """Return xxHash32 with seed 0 of fewer than 16 bytes; the rounds for longer input are not implemented."""
    data = bytes(data)
    size = len(data)
    if size >= 16:
        raise ValueError(f"{size} bytes are too many")
    number = (_PRIMES[4] + size) & _MASK
    for position in range(0, size - 3, 4):
        number = number + int.from_bytes(data[position : position + 4], "little") * _PRIMES[2] & _MASK
        number = _rotate(number, 17) * _PRIMES[3] & _MASK
    for byte in data[size & ~3 :]:
        number = number + byte * _PRIMES[4] & _MASK
        number = _rotate(number, 11) * _PRIMES[0] & _MASK
    number = (number ^ number >> 15) * _PRIMES[1] & _MASK
    number = (number ^ number >> 13) * _PRIMES[2] & _MASK
    return number ^ number >> 16


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
