"""Read the schema ids of the records of a produced batch, without the rest of the records.

The payload is walked in pieces, so that the content of a compressed batch is never in memory as a
whole. Of a record larger than LONG_RECORD only the beginning is read, without its headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from minibroker.errors import InvalidRecord
from minibroker.records.batch import COMPRESSION_MASK, HEADER_SIZE, RecordBatch
from minibroker.records.compression import Compression, decompressed_pieces
from minibroker.records.long_batch import content_max
from minibroker.records.record import MAX_VARLONG_BITS, read_varint
from minibroker.records.steps import Steps
from minibroker.records.validate import ProduceRules
from minibroker.registry.serdes.framing import FramingError, Header, split

STEP_RECORDS: Final = 500  #: between two pauses
LONG_RECORD: Final = 1 << 20  #: bytes
_PIECES_ELSEWHERE: Final = 4  #: pieces that are decompressed at a time
_ID_SIZE: Final = 17  #: bytes of the longest id, with its first byte
_HEADERS: Final = (b"__key_schema_id", b"__value_schema_id")
_NAME_MAX: Final = max(map(len, _HEADERS))


class Part(NamedTuple):
    """The key or the value of a record."""

    size: int  #: -1: null
    schema_id: int | str | None  #: a number, or a GUID; None: it names no schema


class RecordIds(NamedTuple):
    """What a record says of its schemas."""

    number: int  #: in the batch, from 0 on
    timestamp_delta: int
    key: Part
    value: Part


def read_ids(batch: RecordBatch, judge: Callable[[RecordIds], None]) -> Steps[None]:
    """Pass the ids of each record to `judge`, in steps. Raises InvalidRecord if the records do not agree with their batch."""
    kind = Compression.of(batch.attributes & COMPRESSION_MASK)
    payload = batch.data[HEADER_SIZE:]
    max_bytes = content_max(len(payload), ProduceRules()) if kind else len(payload)
    pieces = decompressed_pieces(kind, payload, max_bytes=max_bytes)
    walk = _Walk(batch.record_count, judge)
    while some := (yield from _some_of(pieces, is_elsewhere=kind is not Compression.NONE)):
        for piece in some:
            yield from walk.add(piece)
    walk.finish()


def _some_of(pieces: Iterator[bytes], *, is_elsewhere: bool) -> Steps[list[bytes]]:
    def take() -> list[bytes]:
        return list(islice(pieces, _PIECES_ELSEWHERE))

    if not is_elsewhere:
        return take()
    taken: list[bytes] = yield take
    return taken


class _Walk:
    """The state of a walk over `count` records."""

    def __init__(self, count: int, judge: Callable[[RecordIds], None]) -> None:
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
                size, start = read_varint(data, position)
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
        try:
            timestamp_delta, position = read_varint(data, position + 1, MAX_VARLONG_BITS)  # after the attributes
            _, position = read_varint(data, position)
            key_size, key_start = read_varint(data, position)
            value_size, value_start = read_varint(data, key_start + max(key_size, 0))
            value_stop = value_start + max(value_size, 0)
            headers = _headers(data, value_stop, end) if has_headers else []
        except (IndexError, InvalidRecord):
            raise InvalidRecord(f"record {self._index} is shorter than its fields") from None
        if value_stop >= stop or min(key_size, value_size) < -1:
            raise InvalidRecord(f"record {self._index} is shorter than its fields")
        key = Part(key_size, _id_of(data[key_start : key_start + min(key_size, _ID_SIZE)], headers, "key") if key_size >= 0 else None)
        value_id = _id_of(data[value_start : value_start + min(value_size, _ID_SIZE)], headers, "value") if value_size >= 0 else None
        self._judge(RecordIds(self._index, timestamp_delta, key, Part(value_size, value_id)))
        self._index += 1


def _id_of(beginning: bytes, headers: list[Header], part: str) -> int | str | None:
    try:
        found = split(beginning, headers, part)
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
