"""Changes of a valid request: of its fields, at the places that a layout names, and of its bytes anywhere."""

from __future__ import annotations

from random import Random

from minibroker.records.builder import sum_batch
from minibroker.wire.primitives import NUMBER_STRUCTS, length_of, unsigned_varint
from tests.fuzz.layout import Layout, Span
from tests.fuzz.values import PATTERNS

HEADER_SIZE = 8  #: api_key, api_version, correlation_id
_WAITS = ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms", "transaction_timeout_ms")
_WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_STRINGS = (
    b"",
    b"\0",
    b"alpha",
    b"a" * 249,
    b"a" * 250,
    b"a" * 32767,
    b"\xc3\xbc",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"..",
    b"../../etc/passwd",
    b"%s%n",
    b"\r\nX: y",
    "\u202e\U0001f600".encode(),
    *(pattern.encode() for pattern in PATTERNS),
)
_LYING_COUNTS = (0, 1, 2, 3, 100, 1000, 65535, 2**20, 2**27, 2**31 - 2)
_DEEP_COPIES = (2, 2, 3, 10, 100, 1000)
_MAX_FRAME = 64 * 1024
_SPLICES = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff" * 9 + b"\x01", b"\x80" * 5)

Edit = tuple[int, int, bytes]


def with_changed_fields(frame: bytes, layout: Layout, chance: Random) -> bytes:
    """Change one to four fields; the rest of the request stays valid."""
    if not layout.spans:
        return frame
    edits: list[Edit] = []
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        edits += _edit_of(frame, chance.choice(layout.spans), layout.flexible, chance)
    return _apply(frame, edits)


def with_changed_bytes(frame: bytes, other: bytes, chance: Random) -> bytes:
    """Flip, insert, cut, repeat and splice bytes; key, version and correlation id mostly stay."""
    data = bytearray(frame)
    for _ in range(chance.choice((1, 1, 2, 4))):
        first = HEADER_SIZE if chance.random() < 0.95 else 0
        if len(data) <= first:
            break
        at = chance.randrange(first, len(data))
        match chance.randrange(8):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at] = chance.randrange(256)
            case 2:
                data[at : at + 4] = chance.choice(_SPLICES)
            case 3:
                del data[at : at + chance.randint(1, 20)]
            case 4:
                data[at:at] = data[at : at + chance.randint(1, 20)]
            case 5:
                data[at:at] = chance.randbytes(chance.randint(1, 20))
            case 6:
                del data[at:]
            case _:
                data[at:] = other[chance.randrange(min(HEADER_SIZE, len(other)), len(other) + 1) :]
    return bytes(data)


def _apply(frame: bytes, edits: list[Edit]) -> bytes:
    """Make the edits from the last to the first, so that places stay true; one that overlaps a later one is left out."""
    data, limit = bytearray(frame), len(frame) + 1
    for start, end, replacement in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        if end <= limit:
            data[start:end] = replacement
            limit = start
    return bytes(data)


def _edit_of(frame: bytes, span: Span, flexible: bool, chance: Random) -> list[Edit]:
    if span.kind in NUMBER_STRUCTS or span.kind in ("uuid", "mark"):
        return [(span.start, span.end, _number(span, chance))]
    if span.kind == "array":
        return _array(frame, span, flexible, chance)
    if span.kind == "tags":
        return [(span.start, span.end, _tags(chance))]
    if span.kind == "records" and span.end - span.start > 8 and chance.random() < 0.8:
        return _records(frame, span, flexible, chance)
    return [(span.start, span.end, _sized(frame, span, flexible, chance))]


def _number(span: Span, chance: Random) -> bytes:
    if span.kind == "uuid":
        return chance.choice((bytes(16), b"\xff" * 16, chance.randbytes(16)))
    if span.kind == "mark":
        return chance.choice((b"\xff", b"\x01", b"\x00", b"\x02"))
    form = NUMBER_STRUCTS[span.kind]
    if span.name in _WAITS:  # a mutated request may wait, but not for days
        return form.pack(chance.choice((0, 1, -1, 100, -(2**31))))
    if span.kind not in _WIDTHS:
        return chance.choice((bytes(form.size), b"\xff" * form.size, chance.randbytes(form.size)))
    bits = _WIDTHS[span.kind]
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    value = chance.choice((low, high, low + 1, high - 1, -2, -1, 0, 1, 2, chance.randint(low, high), chance.randint(0, 100)))
    return form.pack(max(low, min(high, value)))


def _array(frame: bytes, span: Span, flexible: bool, chance: Random) -> list[Edit]:
    """Repeat, remove or swap elements with a right count; or a count that lies."""
    count, elements = len(span.elements), span.elements
    kind = chance.randrange(6) if count else chance.choice((4, 5))
    if kind <= 1:
        first, last = elements[chance.randrange(count)]
        copies = chance.choice(_DEEP_COPIES if kind else (2,))
        copies = max(1, min(copies, _MAX_FRAME // max(1, last - first)))
        new_count = length_of(count + copies, compact=flexible, wide=True)
        return [(span.start, span.count_end, new_count), (last, last, frame[first:last] * copies)]
    if kind == 2:
        first, last = elements[chance.randrange(count)]
        return [(span.start, span.count_end, length_of(count - 1, compact=flexible, wide=True)), (first, last, b"")]
    if kind == 3:
        return [(span.start, span.end, length_of(0, compact=flexible, wide=True))]
    if kind == 4:
        return [(span.start, span.end, length_of(None, compact=flexible, wide=True))]
    return [(span.start, span.count_end, length_of(chance.choice(_LYING_COUNTS), compact=flexible, wide=True))]


def _tags(chance: Random) -> bytes:
    """Tagged fields: unknown, repeated, empty, too many."""
    body = chance.randbytes(chance.randrange(12))
    one = unsigned_varint(chance.choice((0, 1, 2, 100, 2**31))) + unsigned_varint(len(body)) + body
    return chance.choice((b"\x01" + one, b"\x02" + one + one, unsigned_varint(chance.choice(_LYING_COUNTS)), b"\x01" + one[:-1], b"\0"))


def _sized(frame: bytes, span: Span, flexible: bool, chance: Random) -> bytes:
    """A string or bytes: odd, huge, null, or with a length that lies."""
    wide = span.kind != "string"
    if chance.random() < 0.15:
        return length_of(None, compact=flexible, wide=wide)
    if chance.random() < 0.15:
        lie = chance.choice((1, 2, 100, 32767)) if span.kind == "string" else chance.choice(_LYING_COUNTS)
        return length_of(lie, compact=flexible, wide=wide) + frame[span.start + 1 : span.end]
    content = chance.choice(_STRINGS)
    return length_of(len(content), compact=flexible, wide=wide) + content


def _records(frame: bytes, span: Span, flexible: bool, chance: Random) -> list[Edit]:
    """Bytes within a batch, with the right checksum half of the time; or the same batches twice."""
    whole = frame[span.start : span.end]
    head = len(length_of(0, compact=False, wide=True)) if not flexible else next(at + 1 for at, byte in enumerate(whole) if byte < 0x80)
    batch = bytearray(whole[head:])
    for _ in range(chance.choice((1, 1, 3))):
        if batch:
            at = chance.randrange(len(batch))
            batch[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    if chance.random() < 0.1:
        batch += bytes(batch)
    elif len(batch) > 61 and batch[16] == 2 and chance.random() < 0.6:
        sum_batch(batch)
    return [(span.start, span.end, length_of(len(batch), compact=flexible, wide=True) + bytes(batch))]
