"""Decode records into Arrow columns with machine code: one pass over a group reads and checks all records, and keeps the wanted ones.

It accepts and rejects the same records as fields.py; a property test compares both with records/record.py.
Importing this module compiles it with numba, and stores the code on disk for the next process. The import
takes half a second even then.

An array of batches has one row per batch with these numbers: START, STOP (of its payload), RECORD_COUNT, BASE_OFFSET, LAST_OFFSET_DELTA,
BASE_TIMESTAMP (epoch ms), IS_APPEND_TIME and MAX_TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import pyarrow as pa

from minibroker.spark.kafka_log.columns import TYPES, header_array
from minibroker.spark.kafka_log.fields import MIN_RECORD_SIZE, MalformedBatchError
from minibroker.spark.kafka_log.options import HEADERS

START, STOP, RECORD_COUNT, BASE_OFFSET, LAST_OFFSET_DELTA, BASE_TIMESTAMP, IS_APPEND_TIME, MAX_TIMESTAMP = range(8)
KEY, VALUE, RECORD_HEADERS = 0, 2, 4  #: rows of spans: the start, followed by the length (-1: null), or for headers by the count
MAX_SPARK_TIMESTAMP = (1 << 63) // 1000 - 1  #: epoch ms that fit into Spark's microseconds

VARINT_SHIFT, VARINT_LAST = 28, 0x0F  #: shift of the last possible byte, and that byte's largest value
VARLONG_SHIFT, VARLONG_LAST = 63, 0x01
MISFIT, GOES_ON, TOO_MANY_BITS, BAD_LENGTH, BAD_OFFSET, BAD_HEADERS, LONGER, BAD_TIMESTAMP = range(-1, -9, -1)
REASONS = {
    MISFIT: "its records do not match its header",
    GOES_ON: "a field or a record extends past its end",
    TOO_MANY_BITS: "a varint of too many bits",
    BAD_LENGTH: "a length below -1, or larger than the record",
    BAD_OFFSET: "an offset that does not increase, or is outside of the batch",
    BAD_HEADERS: "headers that do not fit, or without a key",
    LONGER: "a record is longer than its fields",
    BAD_TIMESTAMP: "a timestamp that Spark cannot hold",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])
_BYTES = "Array(uint8, 1, 'C', readonly=True)"


def _compile(*signature: str, inline: str = "never") -> Callable[[_Function], _Function]:
    """Compile now with this signature; without a signature, where it is called.

    Positions are converted to unsigned before they index: for signed ones numba adds a check for negative
    indexes that takes longer than all the rest.
    """

    def compiled(function: _Function) -> _Function:
        try:
            return numba.njit(*signature, cache=True, nogil=True, inline=inline)(function)  # type: ignore[call-overload, no-any-return, unused-ignore]
        except RuntimeError:  # no folder can store the code
            return numba.njit(*signature, nogil=True, inline=inline)(function)  # type: ignore[call-overload, no-any-return, unused-ignore]

    return compiled


@_compile(inline="always")
def _number(data: Any, position: int, stop: int, last_shift: int, last_byte: int) -> tuple[int, int]:
    """Return a zigzag varint and its end; a negative end is an error code."""
    number: Any = np.int64(0)  # otherwise numba would use 32 bits
    shift = 0
    while True:
        if position >= stop:
            return 0, GOES_ON
        byte = np.int64(data[np.uintp(position)])
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > last_shift:
            return 0, TOO_MANY_BITS
    if shift == last_shift and byte > last_byte:
        return 0, TOO_MANY_BITS
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), position


@_compile()
def _bytes(data: Any, position: int, stop: int) -> tuple[int, int]:
    """Return the length (-1: null) of the field at `position`, and its end; a negative end is an error code."""
    length, position = _number(data, position, stop, VARINT_SHIFT, VARINT_LAST)
    if position < 0:
        return length, position
    if length < -1:
        return length, BAD_LENGTH
    position += max(length, 0)
    return length, position if position <= stop else GOES_ON


@_compile()
def _pass_headers(data: Any, position: int, stop: int, count: int) -> int:
    """Return the end of `count` headers; a negative end is an error code."""
    if count < 0 or count > (stop - position) // 2:
        return BAD_HEADERS
    for _ in range(count):
        length, position = _bytes(data, position, stop)
        if position < 0:
            return position
        if length < 0:
            return BAD_HEADERS
        length, position = _bytes(data, position, stop)
        if position < 0:
            return position
    return position


@_compile(f"UniTuple(int64, 3)({_BYTES}, int64[:, ::1], int64, int64, int64[::1], int64[::1], int32[::1], int64[:, ::1])")
def decode(  # noqa: C901, PLR0912, PLR0917  one loop in one piece: called functions cost four times as much
    data: Any, batches: Any, start_offset: int, end_offset: int, offsets: Any, timestamps: Any, types: Any, spans: Any
) -> tuple[int, int, int]:
    """Fill the arrays with the records in [start_offset, end_offset); return their count, or 0, the error code and its batch."""
    row = 0
    for number in range(len(batches)):
        position, batch_stop = batches[number, START], batches[number, STOP]
        base_offset, last_delta = batches[number, BASE_OFFSET], batches[number, LAST_OFFSET_DELTA]
        base_timestamp, max_timestamp = batches[number, BASE_TIMESTAMP], batches[number, MAX_TIMESTAMP]
        is_append_time = batches[number, IS_APPEND_TIME]
        delta_before = -1
        for _ in range(batches[number, RECORD_COUNT]):
            length, position = _number(data, position, batch_stop, VARINT_SHIFT, VARINT_LAST)
            if position < 0:
                return 0, position, number
            stop = position + length
            if length < 0 or stop > batch_stop:
                return 0, MISFIT, number
            timestamp_delta, position = _number(
                data, position + 1, stop, VARLONG_SHIFT, VARLONG_LAST
            )  # after the attributes, which are unused
            if position < 0:
                return 0, position, number
            delta, position = _number(data, position, stop, VARINT_SHIFT, VARINT_LAST)
            if position < 0:
                return 0, position, number
            if delta <= delta_before or delta > last_delta:
                return 0, BAD_OFFSET, number
            delta_before = delta
            key_length, position = _number(data, position, stop, VARINT_SHIFT, VARINT_LAST)
            if position < 0 or key_length < -1:
                return 0, BAD_LENGTH, number
            key_start = position
            position += max(key_length, 0)
            value_length, position = _number(data, position, stop, VARINT_SHIFT, VARINT_LAST)
            if position < 0 or value_length < -1:
                return 0, BAD_LENGTH, number
            value_start = position
            position += max(value_length, 0)
            header_count, position = _number(data, position, stop, VARINT_SHIFT, VARINT_LAST)
            if position < 0:
                return 0, position, number
            headers_start = position
            if header_count:
                position = _pass_headers(data, position, stop, header_count)
                if position < 0:
                    return 0, position, number
            if position != stop:
                return 0, LONGER, number
            timestamp = max_timestamp if is_append_time else base_timestamp + timestamp_delta
            if timestamp > MAX_SPARK_TIMESTAMP or timestamp < -MAX_SPARK_TIMESTAMP:
                return 0, BAD_TIMESTAMP, number
            offset = base_offset + delta
            if start_offset <= offset < end_offset:
                offsets[row] = offset
                timestamps[row] = timestamp * 1000
                types[row] = is_append_time
                spans[KEY, row], spans[KEY + 1, row] = key_start, key_length
                spans[VALUE, row], spans[VALUE + 1, row] = value_start, value_length
                spans[RECORD_HEADERS, row], spans[RECORD_HEADERS + 1, row] = headers_start, header_count
                row += 1
        if position != batch_stop:
            return 0, MISFIT, number
    return row, 0, 0


@_compile("UniTuple(int64, 2)(int64[::1])")
def total_size(lengths: Any) -> tuple[int, int]:
    """Return the bytes of all values, and how many are null."""
    total = 0
    nulls = 0
    for length in lengths:
        if length < 0:
            nulls += 1
        else:
            total += length
    return total, nulls


@_compile(f"void({_BYTES}, int64[::1], int64[::1], int32[::1], uint8[::1], uint8[::1])")
def gather(  # noqa: PLR0917  called by position: a name costs a look-up, and numba takes none with a signature
    data: Any, starts: Any, lengths: Any, offsets: Any, values: Any, validity: Any
) -> None:
    """Copy values into an Arrow buffer, and set the bit in `validity` (all 0, or empty) of each value that is not null."""
    stop = 0
    offsets[0] = 0
    for row in range(len(starts)):
        start = starts[row]
        length = lengths[row]
        if length >= 0 and len(validity):
            validity[row >> 3] |= np.uint8(1 << (row & 7))
        for index in range(length):
            values[np.uintp(stop + index)] = data[np.uintp(start + index)]
        stop += max(length, 0)
        offsets[row + 1] = stop


@_compile(f"void({_BYTES}, int64[::1], int64[::1], int64[:, ::1])")
def fill_header_spans(data: Any, starts: Any, counts: Any, spans: Any) -> None:
    """Fill `spans` with the keys and values of the headers of decoded records."""
    column = 0
    for row in range(len(starts)):
        position = starts[row]
        for _ in range(counts[row]):
            for field in (KEY, VALUE):
                length, position = _bytes(data, position, len(data))
                spans[field, column] = position - max(length, 0)
                spans[field + 1, column] = length
            column += 1


_NOTHING = np.empty(0, np.uint8)


class CompiledColumns:
    """The records in [start_offset, end_offset) of the batches, an array as described above, whose payloads are in `data`.

    Raises:
        MalformedBatchError: the records of a batch do not match its header; the first such batch.
    """

    def __init__(self, data: np.ndarray, batches: np.ndarray, start_offset: int, end_offset: int) -> None:
        counts = batches[:, RECORD_COUNT]
        too_many = np.flatnonzero((counts < 0) | (counts > (batches[:, STOP] - batches[:, START]) // MIN_RECORD_SIZE))
        if too_many.size:
            raise MalformedBatchError(REASONS[MISFIT], int(too_many[0]))
        size = int(counts.sum())
        self._data = data
        self._offsets = np.empty(size, np.int64)
        self._timestamps = np.empty(size, np.int64)
        self._types = np.empty(size, np.int32)
        self._spans = np.empty((6, size), np.int64)
        arrays = (self._offsets, self._timestamps, self._types, self._spans)
        self.count, wrong, batch = decode(data, batches, start_offset, end_offset, *arrays)
        if wrong:
            raise MalformedBatchError(REASONS[wrong], batch)

    def array(self, role: str) -> pa.Array:
        """Return one of `key`, `value`, `offset`, `timestamp`, `timestampType`, `headers`."""
        match role:
            case "key":
                return self._bytes(self._span(KEY), self._span(KEY + 1))
            case "value":
                return self._bytes(self._span(VALUE), self._span(VALUE + 1))
            case "offset":
                return self._numbers("offset", self._offsets)
            case "timestamp":
                return self._numbers("timestamp", self._timestamps)
            case "timestampType":
                return self._numbers("timestampType", self._types)
            case _:
                return self._headers()

    def _span(self, number: int) -> np.ndarray:
        span: np.ndarray = self._spans[number, : self.count]
        return span

    def _numbers(self, role: str, numbers: np.ndarray) -> pa.Array:
        return pa.Array.from_buffers(TYPES[role], self.count, [None, pa.py_buffer(numbers)])

    def _bytes(self, starts: np.ndarray, lengths: np.ndarray) -> pa.Array:
        size, null_count = total_size(lengths)
        if null_count == len(lengths):
            return pa.nulls(len(lengths), pa.binary())
        offsets = np.empty(len(lengths) + 1, np.int32)
        values = pa.allocate_buffer(size)
        validity = np.zeros((len(lengths) + 7) // 8, np.uint8) if null_count else _NOTHING
        gather(self._data, starts, lengths, offsets, np.frombuffer(values, np.uint8), validity)
        buffers = [pa.py_buffer(validity) if null_count else None, pa.py_buffer(offsets), values]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count)

    def _headers(self) -> pa.Array:
        counts = self._span(RECORD_HEADERS + 1)
        if not counts.any():
            return pa.nulls(self.count, TYPES[HEADERS])
        spans = np.empty((4, int(counts.sum())), np.int64)
        fill_header_spans(self._data, self._span(RECORD_HEADERS), counts, spans)
        keys = self._bytes(spans[KEY], spans[KEY + 1])
        return header_array(keys, self._bytes(spans[VALUE], spans[VALUE + 1]), counts)
