r"""Format a record as text, with formats like kcat's.

%t topic   %p partition   %o offset   %T timestamp (ms since 1970)   %k key   %v or %s value   %h headers (a=1,b=2)
%K %S %R   sizes of key and value (-1: null), and the value's as four bytes    %% a percent sign
\n \r \t \0 \\ \xHH   bytes
"""

from __future__ import annotations

import re
from collections.abc import Callable

from minibroker.client.consumer import ConsumedRecord

Piece = Callable[[ConsumedRecord], bytes]

ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


def unescape(text: str) -> bytes:
    """Return a delimiter or the plain text of a format as bytes, with its escapes resolved."""

    def byte(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode()
        return bytes([int(escape[1:], 16)]) if escape.startswith("x") and len(escape) == 3 else ESCAPES[escape]

    return re.sub(rb"\\(x[0-9a-fA-F]{2}|[nrt0\\])", byte, text.encode("utf-8", "surrogateescape"))


class RecordFormat:
    """A format, parsed once and applied to many records."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str, topic: str, *, null: bytes = b"") -> None:
        """Parse a format. `null` is printed for a null key, value or header value. ValueError for an unknown % letter."""
        pieces = _letters(topic.encode(), null)
        self._pieces: list[Piece] = []
        for plain, letter in re.findall(r"([^%]+)|%(.?)", text, re.DOTALL):
            if plain:
                self._pieces.append(_constant(unescape(plain)))
            elif letter in pieces:
                self._pieces.append(pieces[letter])
            else:
                raise ValueError(f"%{letter} is unknown: there are {' '.join('%' + known for known in pieces)}")

    def __call__(self, consumed: ConsumedRecord) -> bytes:
        """Format one record."""
        return b"".join([piece(consumed) for piece in self._pieces])


def _letters(topic: bytes, null: bytes) -> dict[str, Piece]:
    def value(consumed: ConsumedRecord) -> bytes:
        content = consumed.record.value
        return null if content is None else content

    def key(consumed: ConsumedRecord) -> bytes:
        content = consumed.record.key
        return null if content is None else content

    def headers(consumed: ConsumedRecord) -> bytes:
        return b",".join(name.encode() + b"=" + (null if content is None else content) for name, content in consumed.record.headers)

    return {
        "t": _constant(topic),
        "p": lambda consumed: b"%d" % consumed.partition,
        "o": lambda consumed: b"%d" % consumed.record.offset,
        "T": lambda consumed: b"%d" % consumed.record.timestamp,
        "k": key,
        "v": value,
        "s": value,
        "h": headers,
        "K": lambda consumed: b"%d" % _size(consumed.record.key),
        "S": lambda consumed: b"%d" % _size(consumed.record.value),
        "R": lambda consumed: _size(consumed.record.value).to_bytes(4, "big", signed=True),
        "%": _constant(b"%"),
    }


def _constant(text: bytes) -> Piece:
    return lambda _: text


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)
