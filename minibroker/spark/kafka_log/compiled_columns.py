"""Positions of fields become columns of Arrow by machine code (compiled.py)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from minibroker.spark.kafka_log import compiled
from minibroker.spark.kafka_log.columns import TYPES, header_array
from minibroker.spark.kafka_log.fields import MalformedBatchError
from minibroker.spark.kafka_log.schema import HEADERS
from minibroker.spark.kafka_log.split import MIN_RECORD_SIZE

_NOTHING = np.empty(0, np.uint8)


class CompiledColumns:
    """The records in [start_offset, end_offset) of the batches, an array as compiled.py has it, whose payloads are in `data`.

    MalformedBatchError for the first batch whose records are not what it announces.
    """

    def __init__(self, data: np.ndarray, batches: np.ndarray, start_offset: int, end_offset: int) -> None:
        counts = batches[:, compiled.RECORD_COUNT]
        too_many = np.flatnonzero((counts < 0) | (counts > (batches[:, compiled.STOP] - batches[:, compiled.START]) // MIN_RECORD_SIZE))
        if too_many.size:
            raise MalformedBatchError(compiled.REASONS[compiled.MISFIT], int(too_many[0]))
        size = int(counts.sum())
        self._data = data
        self._offsets = np.empty(size, np.int64)
        self._timestamps = np.empty(size, np.int64)
        self._types = np.empty(size, np.int32)
        self._spans = np.empty((6, size), np.int64)
        arrays = (self._offsets, self._timestamps, self._types, self._spans)
        self.count, wrong, batch = compiled.decode(data, batches, start_offset, end_offset, *arrays)
        if wrong:
            raise MalformedBatchError(compiled.REASONS[wrong], batch)

    def array(self, role: str) -> pa.Array:
        """One of `key`, `value`, `offset`, `timestamp`, `timestampType`, `headers`."""
        match role:
            case "key":
                return self._bytes(self._span(compiled.KEY), self._span(compiled.KEY + 1))
            case "value":
                return self._bytes(self._span(compiled.VALUE), self._span(compiled.VALUE + 1))
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
        size, null_count = compiled.total(lengths)
        if null_count == len(lengths):
            return pa.nulls(len(lengths), pa.binary())
        offsets = np.empty(len(lengths) + 1, np.int32)
        values = pa.allocate_buffer(size)
        validity = np.zeros((len(lengths) + 7) // 8, np.uint8) if null_count else _NOTHING
        compiled.gather(self._data, starts, lengths, offsets, np.frombuffer(values, np.uint8), validity)
        buffers = [pa.py_buffer(validity) if null_count else None, pa.py_buffer(offsets), values]
        return pa.Array.from_buffers(pa.binary(), len(lengths), buffers, null_count)

    def _headers(self) -> pa.Array:
        counts = self._span(compiled.RECORD_HEADERS + 1)
        if not counts.any():
            return pa.nulls(self.count, TYPES[HEADERS])
        spans = np.empty((4, int(counts.sum())), np.int64)
        compiled.headers(self._data, self._span(compiled.RECORD_HEADERS), counts, spans)
        keys = self._bytes(spans[compiled.KEY], spans[compiled.KEY + 1])
        return header_array(keys, self._bytes(spans[compiled.VALUE], spans[compiled.VALUE + 1]), counts)
