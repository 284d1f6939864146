"""DER, the encoding of certificates and keys (X.690).

    value:  u8 tag   length   content
    length: u8 below 0x80, or u8 0x80 + n and n bytes

Damaged input raises IndexError or gives values that are too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_INTEGER: Final = 0x02
_CONSTRUCTED: Final = 0x20  #: bit of the tags of SEQUENCE and SET


def _header(der: bytes, position: int = 0) -> tuple[int, int]:
    """Return where the content of the value at `position` starts and ends."""
    first = der[position + 1]
    start = position + 2
    if first < 0x80:
        return start, start + first
    start += first - 0x80
    return start, start + int.from_bytes(der[position + 2 : start], "big")


def content(der: bytes) -> bytes:
    """Return the content of one value."""
    start, end = _header(der)
    return der[start:end]


def items(body: bytes) -> list[bytes]:
    """Return the values, with their headers, of which the content of a SEQUENCE or SET consists."""
    found, position = [], 0
    while position < len(body):
        _, end = _header(body, position)
        found.append(body[position:end])
        position = end
    return found


def integers(der: bytes) -> Iterator[int]:
    """Yield all integers in one value and in the values that it consists of."""
    waiting = [der]
    while waiting:
        value = waiting.pop()
        if value[0] == _INTEGER:
            yield int.from_bytes(content(value), "big")
        elif value[0] & _CONSTRUCTED:
            waiting += items(content(value))
