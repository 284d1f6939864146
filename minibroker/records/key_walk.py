"""Walks of compaction over the records of a batch of format v2: their keys, their positions, and the removal of records.

No Record is created: a key is cut out of the payload, and a record that stays is a span of it, (start, stop). A million records cost half
a second if every key is read, a tenth of a second if only spans are. The loops are tight for this reason: they read varints of one and two
bytes in place. The low bit of a zigzag number is its sign, and a length is negative only for null.

A **code** is twice the offset of a record, plus one if its value is null (a tombstone): codes sort as offsets do.

The payload comes from a log: its CRC was right, and its records were checked when they were produced. Therefore a walk only checks that
it ends where the batch ends. Otherwise it raises InvalidRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from minibroker.errors import InvalidRecord
from minibroker.records.record import MAX_VARLONG_BITS, read_varint, write_varint

Span = tuple[int, int]

MAX_PLAIN_KEY: Final = 47  #: bytes; a map has a digest for a longer key, which is longer than any plain key
_MAX_PLAIN_NUMBER: Final = 2 * MAX_PLAIN_KEY


def digest(key: bytes) -> bytes:
    """Return the digest of a long key: 48 bytes of BLAKE2b."""
    from hashlib import blake2b  # noqa: PLC0415  costs milliseconds, and most keys are short

    return blake2b(key, digest_size=MAX_PLAIN_KEY + 1).digest()


def map_key(key: bytes) -> bytes:
    """Return a key in the form that a map has."""
    return key if len(key) <= MAX_PLAIN_KEY else digest(key)


def note_keys(latest: dict[bytes, int], data: bytes, position: int, stop: int, count: int, base_offset: int) -> None:  # noqa: PLR0917  called for each batch
    """Note the code of each record under its key, a later one over an earlier one. Records lie in data[position:stop]."""
    base_code = 2 * base_offset
    try:
        for _ in range(count):
            number = data[position]
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            record_stop = position + (number >> 1)
            position += 1  # attributes: none is in use; then the timestamp delta
            while data[position] >= 0x80:
                position += 1
            number = data[position + 1]  # offset delta, twice
            position += 2
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            code = base_code + number
            number = data[position]  # the key's length
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            if not number & 1:
                key_stop = position + (number >> 1)
                key = data[position:key_stop]
                if number > _MAX_PLAIN_NUMBER:
                    key = digest(key)
                latest[key] = code | data[key_stop] & 1
            position = record_stop
    except IndexError:
        position = -1
    _must_end(position, stop, count)


def walk_keys(data: bytes, position: int, stop: int, count: int, base_offset: int) -> Iterator[tuple[Span, int, bytes | None]]:
    """Yield each record's span, code and key (as `map_key` returns it; None for a null key)."""
    try:
        for _ in range(count):
            start = position
            number, position = _read_number(data, position)
            record_stop = position + (number >> 1)
            _, position = _read_number(data, position + 1, MAX_VARLONG_BITS)
            number, position = _read_number(data, position)
            code = 2 * base_offset + number
            number, position = _read_number(data, position)
            key = None
            if number & 1:
                key_stop = position
            else:
                key_stop = position + (number >> 1)
                key = map_key(data[position:key_stop])
            yield (start, record_stop), code | data[key_stop] & 1, key
            position = record_stop
    except IndexError:
        position = -1
    _must_end(position, stop, count)


def spans_without(  # noqa: C901, PLR0912  a call costs as much as a field
    latest: dict[bytes, int], data: bytes, position: int, stop: int, count: int
) -> tuple[list[Span], list[Span]]:
    """Return spans of the records whose key is not in `latest`: those with a value, and the tombstones. Skips records without key."""
    kept: list[Span] = []
    tombstones: list[Span] = []
    try:
        for _ in range(count):
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            record_stop = position + (number >> 1)
            position += 1
            while data[position] >= 0x80:
                position += 1
            position += 1
            while data[position] >= 0x80:
                position += 1
            number = data[position + 1]
            position += 2
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            if not number & 1:
                key_stop = position + (number >> 1)
                key = data[position:key_stop]
                if number > _MAX_PLAIN_NUMBER:
                    key = digest(key)
                if key not in latest:
                    if data[key_stop] & 1:
                        tombstones.append((start, record_stop))
                    else:
                        kept.append((start, record_stop))
            position = record_stop
    except IndexError:
        position = -1
    _must_end(position, stop, count)
    return kept, tombstones


def spans_at(data: bytes, position: int, stop: int, count: int, indexes: Sequence[int]) -> list[Span]:
    """Return spans of the records with these ascending indexes, at least one."""
    spans: list[Span] = []
    pending = iter(indexes)
    next_index = next(pending)
    try:
        for index in range(count):
            start = position
            number = data[position]
            position += 1
            if number >= 0x80:
                number = number & 0x7F | data[position] << 7
                position += 1
                if number >= 0x4000:
                    number, position = _read_number(data, position - 2)
            position += number >> 1
            if index == next_index:
                spans.append((start, position))
                next_index = next(pending, -1)
    except IndexError:
        position = -1
    _must_end(position, stop, count)
    return spans


def timestamp_deltas(data: bytes, spans: Sequence[Span]) -> list[int]:
    """Return the timestamp delta of each record, in ms against base_timestamp."""
    deltas = []
    for position, _ in spans:
        while data[position] >= 0x80:
            position += 1  # noqa: PLW2901  over the length
        delta, _ = read_varint(data, position + 2, MAX_VARLONG_BITS)  # and the attributes
        deltas.append(delta)
    return deltas


def join_spans(data: bytes, spans: Sequence[Span]) -> bytes:
    """Return the bytes of these spans, end to end."""
    parts = []
    start, stop = spans[0]
    for next_start, next_stop in spans:
        if next_start > stop:
            parts.append(data[start:stop])
            start = next_start
        stop = next_stop
    parts.append(data[start:stop])
    return b"".join(parts)


def shift_timestamps(data: bytes, spans: Sequence[Span], shift_ms: int) -> bytes:
    """Return the records of these spans with `shift_ms` added to each timestamp delta, for a batch with another base_timestamp."""
    out = bytearray()
    for position, stop in spans:
        while data[position] >= 0x80:
            position += 1  # noqa: PLW2901  over the length
        delta, after = read_varint(data, position + 2, MAX_VARLONG_BITS)
        body = bytearray(data[position + 1 : position + 2])  # attributes
        write_varint(body, delta + shift_ms)
        write_varint(out, len(body) + stop - after)
        out += body
        out += data[after:stop]
    return bytes(out)


def _read_number(data: bytes, position: int, max_bits: int = 35) -> tuple[int, int]:
    """Return a varint before zigzag decoding, and the position after it."""
    number, position = read_varint(data, position, max_bits)
    return (number << 1) ^ (number >> 63), position


def _must_end(position: int, stop: int, count: int) -> None:
    if position != stop:
        raise InvalidRecord(f"{count} records do not end where their batch does")
