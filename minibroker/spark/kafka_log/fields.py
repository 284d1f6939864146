"""Find the fields of many records at once, as numpy columns of positions.

The layout is that of records/record.py. A property test checks that this module accepts exactly the records
that `decode_records` accepts. Each step reads one field of all records; the third and later bytes of varints
are read only for the few records that have them.

The starts of records are found first, by a walk from record to record, because a record has only its own length. The walk reads
one or two bytes per record. If numba is installed, it is also compiled, and the code is stored on disk for the next process.
It is then eight times faster, but takes half a second to load: a process loads it after it has walked over
RECORDS_BEFORE_COMPILING records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Walk = Callable[[Any, Any, Any, Any, Any], int]
COMPLETE = -1
RECORDS_BEFORE_COMPILING = 500_000
#: the least bytes of a record: length, attributes, both deltas, the lengths of a null key and value, the header count
MIN_RECORD_SIZE = 7
_SIGNATURE = "int64(Array(uint8, 1, 'C', readonly=True), int64[::1], int64[::1], int64[::1], int64[::1])"
PADDING = 16  #: bytes after `data` that may be read but are never used
VARINT_BYTES = 5
VARLONG_BYTES = 10
NULL = -1


def _walk(data: Any, starts: Any, stops: Any, counts: Any, found: Any) -> int:
    """Write the position of each record of each batch to `found`.

    Batch i is data[starts[i]:stops[i]] and has counts[i] records. Returns COMPLETE, or the first batch whose
    records do not end at its end. The function is simple enough for numba.
    """
    index = 0
    for batch in range(len(starts)):
        position = starts[batch]
        stop = stops[batch]
        for _ in range(counts[batch]):
            if position >= stop:
                return batch
            found[index] = position
            index += 1
            number = data[position]
            position += 1
            if number >= 0x80:
                number &= 0x7F
                shift = 7
                while True:
                    if position >= stop or shift > 28:
                        return batch
                    byte = data[position]
                    position += 1
                    number |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                if number >> 32:
                    return batch
            if number & 1:
                return batch
            position += number >> 1
        if position != stop:
            return batch
    return COMPLETE


class Splitter:
    """Splits with machine code if this process has loaded it, otherwise with Python; one object for all threads."""

    def __init__(self, compile_after: int = RECORDS_BEFORE_COMPILING) -> None:
        self._left = compile_after
        self._compiled: Walk | None = None

    def positions(self, data: bytes, starts: np.ndarray, stops: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the positions of all records in `data` and COMPLETE, or the number of a batch that its records do not fill."""
        too_many = np.flatnonzero((counts < 0) | (counts > (stops - starts) // MIN_RECORD_SIZE))
        if too_many.size:
            return np.empty(0, np.int64), int(too_many[0])
        found = np.empty(int(counts.sum()), np.int64)
        if self._compiled is None and self._left <= 0:
            self._left = 1 << 62
            self._compiled = compile_walk()
        if self._compiled is not None:
            return found, self._compiled(np.frombuffer(data, np.uint8), starts, stops, counts, found)
        self._left -= len(found)
        # reading and writing an item of a memoryview takes half as long as of a numpy array
        return found, _walk(data, starts.tolist(), stops.tolist(), counts.tolist(), found.data)


def compile_walk() -> Walk | None:
    """Return the walk as machine code; None if numba is not installed."""
    try:
        import numba  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415  optional, and heavy
    except ImportError:
        return None
    try:
        return numba.njit(_SIGNATURE, cache=True, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]
    except RuntimeError:  # no folder can store the code
        return numba.njit(_SIGNATURE, nogil=True)(_walk)  # type: ignore[no-any-return, unused-ignore]


SPLITTER = Splitter()


class MalformedBatchError(Exception):
    """The records of batch number `batch` do not match its header; `args[0]` is the reason."""

    def __init__(self, reason: str, batch: int) -> None:
        super().__init__(reason)
        self.batch = batch


class Payloads(NamedTuple):
    """Uncompressed records of many batches in one buffer; arrays have one item per batch."""

    data: bytes  #: with PADDING bytes at its end
    starts: np.ndarray
    stops: np.ndarray
    record_counts: np.ndarray
    last_offset_deltas: np.ndarray


class Headers(NamedTuple):
    """Headers of records, in order; arrays have one item per header."""

    rows: np.ndarray  #: the number of its record
    key_starts: np.ndarray
    key_stops: np.ndarray
    value_starts: np.ndarray
    value_stops: np.ndarray
    value_is_null: np.ndarray


class Fields(NamedTuple):
    """Arrays with one item per record; `starts` and `stops` are positions in `data`, equal for null or empty fields."""

    data: bytes
    batches: np.ndarray  #: the number of its batch
    offset_deltas: np.ndarray
    timestamp_deltas: np.ndarray
    key_starts: np.ndarray
    key_stops: np.ndarray
    key_is_null: np.ndarray
    value_starts: np.ndarray
    value_stops: np.ndarray
    value_is_null: np.ndarray
    headers: Headers


def undo_zigzag(numbers: np.ndarray) -> np.ndarray:
    """Return 0, -1, 1, -2 for 0, 1, 2, 3; 64 bits, as int64."""
    undone: np.ndarray = (numbers >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(numbers & 1)
    return undone


class _Cursor:
    """Reads one field after the other of the same records; errors name the batch of the record."""

    def __init__(self, data: np.ndarray, positions: np.ndarray, stops: np.ndarray, batches: np.ndarray) -> None:
        self.data = data
        self.positions = positions
        self.stops = stops
        self.batches = batches

    def reject(self, wrong: np.ndarray, reason: str) -> None:
        """Raise MalformedBatchError for the first record that is `wrong`, if any."""
        if wrong.any():
            raise MalformedBatchError(reason, int(self.batches[int(np.argmax(wrong))]))

    def read_number(self, max_bytes: int = VARINT_BYTES) -> np.ndarray:
        """Read a zigzag varint of each record."""
        self.reject(self.positions >= self.stops, "a record extends past its end")
        first = self.data[self.positions]
        self.positions = self.positions + 1
        numbers = first.astype(np.int64)
        more = first >= 0x80
        if more.any():  # reading the second byte of all records takes less time than choosing some
            second = self.data[self.positions]
            numbers = np.where(more, numbers & 0x7F | (second & 0x7F).astype(np.int64) << 7, numbers)
            self.positions += more
            rows = np.flatnonzero(more & (second >= 0x80))
            if rows.size:
                self._read_on(numbers, rows, max_bytes)
        return undo_zigzag(numbers)

    def _read_on(self, numbers: np.ndarray, rows: np.ndarray, max_bytes: int) -> None:
        """Add the third and later bytes to the numbers of some rows."""
        positions = self.positions[rows]
        values = numbers[rows].view(np.uint64)
        last_limit = 0x0F if max_bytes == VARINT_BYTES else 0x01
        active = np.arange(rows.size)
        for index in range(2, max_bytes):
            byte = self.data[positions[active]]
            positions[active] += 1
            values[active] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
            if index == max_bytes - 1:
                wrong = byte > last_limit
                if wrong.any():
                    raise MalformedBatchError("a varint of too many bits", int(self.batches[rows[active[int(np.argmax(wrong))]]]))
            active = active[byte >= 0x80]
            if not active.size:
                break
        numbers[rows] = values.view(np.int64)
        self.positions[rows] = positions

    def read_bytes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read a length and as many bytes of each record; return starts, stops and whether the field is null."""
        lengths = self.read_number()
        is_null = lengths < 0
        self.reject(lengths < NULL, "a length below -1")
        starts = self.positions
        self.positions = stops = starts + np.maximum(lengths, 0)
        self.reject(stops > self.stops, "a field is longer than its record")
        return starts, stops, is_null


def read_fields(payloads: Payloads, splitter: Splitter = SPLITTER) -> Fields:
    """Return the positions of all fields; MalformedBatchError for the first batch whose records do not match its header."""
    data, starts, stops, counts, last_offset_deltas = payloads
    positions, bad = splitter.positions(data, starts, stops, counts)
    if bad != COMPLETE:
        raise MalformedBatchError(f"its size is not that of its {int(counts[bad])} records", bad)
    batches = np.repeat(np.arange(len(starts)), counts)
    cursor = _Cursor(np.frombuffer(data, np.uint8), positions, stops[batches], batches)
    lengths = cursor.read_number()
    cursor.stops = cursor.positions + lengths
    cursor.positions = cursor.positions + 1  # attributes, which are unused
    timestamp_deltas = cursor.read_number(VARLONG_BYTES)
    offset_deltas = cursor.read_number()
    _check_offsets(cursor, offset_deltas, last_offset_deltas)
    key_starts, key_stops, key_is_null = cursor.read_bytes()
    value_starts, value_stops, value_is_null = cursor.read_bytes()
    headers = _read_headers(cursor)
    cursor.reject(cursor.positions != cursor.stops, "a record is longer than its fields")
    return Fields(
        data,
        batches,
        offset_deltas,
        timestamp_deltas,
        key_starts,
        key_stops,
        key_is_null,
        value_starts,
        value_stops,
        value_is_null,
        headers,
    )


def _check_offsets(cursor: _Cursor, offset_deltas: np.ndarray, last_offset_deltas: np.ndarray) -> None:
    batches = cursor.batches
    cursor.reject((offset_deltas < 0) | (offset_deltas > last_offset_deltas[batches]), "an offset outside of the batch")
    falls = np.zeros(len(batches), bool)
    falls[1:] = (offset_deltas[1:] <= offset_deltas[:-1]) & (batches[1:] == batches[:-1])
    cursor.reject(falls, "offsets that do not increase")


def _read_headers(cursor: _Cursor) -> Headers:
    """Read the first header of all records, then the second, and so on; leave the cursor after the last header."""
    counts = cursor.read_number()
    rows = np.flatnonzero(counts)
    if not rows.size:
        nothing = np.empty(0, np.int64)
        return Headers(nothing, nothing, nothing, nothing, nothing, np.empty(0, bool))
    cursor.reject((counts < 0) | (counts > (cursor.stops - cursor.positions) // 2), "more headers than fit")
    found = []
    number = 0
    while rows.size:
        part = _Cursor(cursor.data, cursor.positions[rows], cursor.stops[rows], cursor.batches[rows])
        key_starts, key_stops, key_is_null = part.read_bytes()
        part.reject(key_is_null, "a header without a key")
        found.append(Headers(rows, key_starts, key_stops, *part.read_bytes()))
        cursor.positions[rows] = part.positions
        number += 1
        rows = rows[counts[rows] > number]
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return Headers(*(column[order] for column in columns))
