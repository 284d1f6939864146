"""Format records as text or as JSON, and parse JSON: `consume -o jsonl` prints what `produce --input jsonl` reads.

    {"topic": "orders", "partition": 0, "offset": 7, "timestamp": 1357034400000, "timestamp_type": "CreateTime",
     "key": "UA", "value": {"base64": "/wA="}, "headers": [{"key": "origin", "value": null}]}

A key, a value and a header's value are a string if their bytes are UTF-8, otherwise {"base64": "..."}; null is null.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any

from minibroker.client.consumer import ConsumedRecord
from minibroker.records.batch import TimestampType
from minibroker.records.record import Record

#: the help of formats, which are like kcat's
FORMAT_HELP = r"""
%t topic   %p partition   %o offset   %T timestamp (ms since 1970)   %k key   %v or %s value   %h headers (a=1,b=2)
%K %S size of key and of value (-1: null)   %R size of value as four bytes   %% a percent sign
\n \r \t \0 \\ \xHH   bytes
"""
Piece = Callable[[ConsumedRecord], bytes]
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
TIMESTAMP_TYPES = {TimestampType.CREATE_TIME: "CreateTime", TimestampType.LOG_APPEND_TIME: "LogAppendTime"}


def unescape(text: str) -> bytes:
    """Return a delimiter or the plain text of a format as bytes, with its escapes resolved."""

    def byte(match: re.Match[bytes]) -> bytes:
        escape = match[1].decode()
        return bytes([int(escape[1:], 16)]) if escape.startswith("x") and len(escape) == 3 else ESCAPES[escape]

    return re.sub(rb"\\(x[0-9a-fA-F]{2}|[nrt0\\])", byte, text.encode("utf-8", "surrogateescape"))


class RecordFormat:
    """A format, parsed once and applied to many records."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str, *, null: bytes = b"") -> None:
        """Parse a format. `null` is printed for a null key, value or header value. ValueError for an unknown % letter."""
        pieces = _letters(null)
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


def _letters(null: bytes) -> dict[str, Piece]:
    def value(consumed: ConsumedRecord) -> bytes:
        content = consumed.record.value
        return null if content is None else content

    def key(consumed: ConsumedRecord) -> bytes:
        content = consumed.record.key
        return null if content is None else content

    def headers(consumed: ConsumedRecord) -> bytes:
        return b",".join(name.encode() + b"=" + (null if content is None else content) for name, content in consumed.record.headers)

    return {
        "t": lambda consumed: consumed.topic.encode(),
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


def to_json(consumed: ConsumedRecord) -> dict[str, Any]:
    """Convert a consumed record."""
    record = consumed.record
    return {
        "topic": consumed.topic,
        "partition": consumed.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "timestamp_type": TIMESTAMP_TYPES[consumed.timestamp_type],
        "key": bytes_to_json(record.key),
        "value": bytes_to_json(record.value),
        "headers": [{"key": name, "value": bytes_to_json(content)} for name, content in record.headers],
    }


def json_of(line: bytes) -> Any:
    """Return the value of a line of JSON; ValueError with the column of the first error."""
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at column {error.pos + 1}") from error


#: what `from_json` reads of an object
_FIELDS = frozenset({"headers", "key", "partition", "timestamp", "value"})


def from_json(item: Any, now_ms: int) -> tuple[Record, int | None]:
    """Return a record to produce, and the partition that it names; ValueError for an invalid one. Other fields are ignored."""
    if not isinstance(item, dict):
        raise ValueError("a record must be a JSON object")  # noqa: TRY004  whatever is wrong with the text is a ValueError to the caller
    if item and not _FIELDS & item.keys():
        raise ValueError(f"the object has none of the fields {', '.join(sorted(_FIELDS))}")
    timestamp, partition = item.get("timestamp"), item.get("partition")
    if not isinstance(timestamp, int | None) or not isinstance(partition, int | None):
        raise ValueError("timestamp and partition must be whole numbers")  # noqa: TRY004  as above
    headers = item.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"key": name, "value": content} for name, content in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(header, dict) and isinstance(header.get("key"), str) for header in headers):
        raise ValueError('headers must be [{"key": ..., "value": ...}] or an object')
    pairs = tuple((header["key"], bytes_from_json(header.get("value"))) for header in headers)
    moment = now_ms if timestamp is None else timestamp
    return Record(0, moment, bytes_from_json(item.get("key")), bytes_from_json(item.get("value")), pairs), partition


def bytes_to_json(content: bytes | None) -> str | dict[str, str] | None:
    """Convert UTF-8 to a string, other bytes to base64, null to null."""
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def bytes_from_json(content: Any) -> bytes | None:
    """Reverse `bytes_to_json`; ValueError for other values."""
    if content is None:
        return None
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, dict) and isinstance(content.get("base64"), str):
        try:
            return base64.b64decode(content["base64"], validate=True)
        except binascii.Error as error:
            raise ValueError(f"not base64: {error}") from error
    raise ValueError('a key or value must be a string, null or {"base64": ...}')
