"""Read the schema ids of the records of a produced batch, without the rest of the records.

The payload is walked in pieces, so that the content of a compressed batch is never in memory as a
whole. Of a record larger than LONG_RECORD only the beginning is read, without its headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from minibroker.errors import InvalidRecord
from minibroker.records.batch import RecordBatch
from minibroker.records.long_batch import read_pieces
from minibroker.records.record import MAX_VARLONG_BITS, read_varint
from minibroker.records.steps import Steps
from minibroker.records.validate import ProduceRules
from minibroker.registry.serdes.framing import FramingError, Header, split

STEP_RECORDS: Final = 500  #: between two pauses
LONG_RECORD: Final = 1 << 20  #: bytes
_NUMBER_SIZE: Final = 5  #: bytes of an id that is a number, with its first byte
_ID_SIZE: Final = 17  #: bytes of the longest id, with its first byte
_HEADERS: Final = (b"__key_schema_id", b"__value_schema_id")
_NAME_MAX: Final = max(map(len, _HEADERS))


Found = int | str | None  #: the id of a key or value: a number, or a GUID; None: it names no schema, or is null


class Judge(Protocol):
    """Gets the ids of each record."""

    def __call__(self, number: int, timestamp_delta: int, sizes: tuple[int, int], key: Found, value: Found) -> object:
        """Look at a record: its number in the batch, and the sizes of key and value (-1: null)."""


def read_ids(batch: RecordBatch, judge: Judge) -> Steps[None]:
    """Pass the ids of each record to `judge`, in steps. Raises InvalidRecord if the records do not agree with their batch."""
    walk = _Walk(batch.record_count, judge)
    yield from read_pieces(batch, ProduceRules(), walk.add)
    walk.finish()


class _Walk:
    """The state of a walk over `count` records."""

    def __init__(self, count: int, judge: Judge) -> None:
        self._count = count
        self._judge = judge
        self._index = 0
        self._rest = b""  #: the beginning of a record that is not whole
        self._skip = 0  #: bytes of the next pieces that belong to the last record

    def add(self, piece: bytes) -> Iterator[None]:
        """Walk the records that a piece completes, with pauses."""
        if self._skip >= len(piece):
            self._skip -= len(piece)
            return
        data, position, self._skip = self._rest + piece[self._skip :], 0, 0
        while position < len(data) and self._index < self._count:
            try:
                size, start = _number(data, position)
            except IndexError:
                break  # the length continues in the next piece
            if size < 0:
                raise InvalidRecord(f"record {self._index} has a negative length")
            stop = start + size
            is_whole = stop <= len(data)
            if not is_whole and len(data) - start < min(size, LONG_RECORD):
                break
            self._read(data, start, stop, has_headers=is_whole)
            position = stop
            if not self._index % STEP_RECORDS:
                yield
        self._skip = max(position - len(data), 0)
        self._rest = data[position:]
        if self._rest and self._index == self._count:
            raise InvalidRecord(f"{self._count} records end before the payload does")

    def finish(self) -> None:
        """Check that the last record was whole."""
        if self._rest or self._skip or self._index < self._count:
            raise InvalidRecord(f"{self._count} records do not end where the payload does")

    def _read(self, data: bytes, position: int, stop: int, *, has_headers: bool) -> None:
        end = min(stop, len(data))
        headers: list[Header] = []
        try:
            position += 1  # after the attributes
            number = data[position]  # varints of one byte are read in place: most are
            if number < 0x80:
                timestamp_delta, position = (number >> 1) ^ -(number & 1), position + 1
            else:
                timestamp_delta, position = _number(data, position)
            while data[position] >= 0x80:  # the offset delta, which the handler checks
                position += 1
            number = data[position + 1]
            if number < 0x80:
                key_size, key_start = (number >> 1) ^ -(number & 1), position + 2
            else:
                key_size, key_start = _number(data, position + 1)
            value_size, value_start = _number(data, key_start + key_size if key_size > 0 else key_start)
            value_stop = value_start + value_size if value_size > 0 else value_start
            if has_headers and (value_stop != end - 1 or data[value_stop]):  # most records have no headers
                headers = _headers(data, value_stop, end)
        except (IndexError, InvalidRecord):
            why = "is shorter than its fields" if has_headers else f"has no value within its first {LONG_RECORD} bytes, to find a schema id"
            raise InvalidRecord(f"record {self._index} {why}") from None
        if value_stop >= stop or key_size < -1 or value_size < -1:
            raise InvalidRecord(f"record {self._index} is shorter than its fields")
        key = _id_at(data, key_start, key_size, headers, "key")
        value = _id_at(data, value_start, value_size, headers, "value")
        self._judge(self._index, timestamp_delta, (key_size, value_size), key, value)
        self._index += 1


def _number(data: bytes, position: int) -> tuple[int, int]:
    """Return a varint and the position after it; those of one byte are read in place."""
    number = data[position]
    if number < 0x80:
        return (number >> 1) ^ -(number & 1), position + 1
    return read_varint(data, position, MAX_VARLONG_BITS)


def _id_at(data: bytes, start: int, size: int, headers: list[Header], part: str) -> Found:
    if size < 0:
        return None
    if not headers and size >= _NUMBER_SIZE and not data[start]:
        return int.from_bytes(data[start + 1 : start + _NUMBER_SIZE])
    try:
        found = split(data[start : start + min(size, _ID_SIZE)], headers, part)
    except FramingError:
        return None
    return None if found is None else found.schema_id


def _headers(data: bytes, position: int, stop: int) -> list[Header]:
    """Return the headers that name schemas. Raises InvalidRecord or IndexError unless all headers end at `stop`."""
    count, position = read_varint(data, position)
    found: list[Header] = []
    if not 0 <= count <= stop - position:
        raise InvalidRecord("a wrong count of headers")
    for _ in range(count):
        size, position = read_varint(data, position)
        name_stop = position + size
        value_size, value_start = read_varint(data, name_stop)
        value_stop = value_start + max(value_size, 0)
        if size < 0 or value_stop > stop:
            raise InvalidRecord("a header is longer than its record")
        name = data[position:name_stop] if size <= _NAME_MAX else b""
        if name in _HEADERS:
            found.append((name.decode(), data[value_start : min(value_stop, value_start + _ID_SIZE)] if value_size >= 0 else None))
        position = value_stop
    if position != stop:
        raise InvalidRecord("the headers end before their record")
    return found
