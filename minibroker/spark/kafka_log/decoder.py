"""Decode records of format v2 with numpy, and with machine code once a process has read enough records for that to pay.

numpy takes half a microsecond per record. Machine code takes a tenth of that, and half a second to load.
Without numba, numpy decodes all records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minibroker.records.batch import LOG_APPEND_TIME_FLAG
from minibroker.spark.kafka_log.columns import FieldColumns, RecordColumns, Rows
from minibroker.spark.kafka_log.fields import PADDING, MalformedBatchError, Payloads, read_fields
from minibroker.spark.kafka_log.split import SPLITTER, Splitter

RECORDS_BEFORE_COMPILING = 500_000
MAX_TIMESTAMP = (1 << 63) // 1000 - 1  #: epoch ms that fit into Spark's microseconds

Decode = Callable[["Group", int, int], RecordColumns]


class Group(NamedTuple):
    """Batches to decode at once: their headers (frames.HEADER), and the positions of their payloads in `data` (uint8)."""

    data: np.ndarray  #: with PADDING bytes after the last payload
    headers: np.ndarray
    starts: np.ndarray
    stops: np.ndarray

    def without(self, batch: int) -> Group:
        """Return all batches except one."""
        return Group(self.data, *(np.delete(each, batch) for each in self[1:]))


class Decoder:
    """Decodes with the faster way that this process has; one object for all threads."""

    def __init__(self, compile_after: int = RECORDS_BEFORE_COMPILING) -> None:
        self._left = compile_after
        self._decode: Decode = decode_with_numpy

    def columns(self, group: Group, start_offset: int, end_offset: int) -> RecordColumns:
        """Return the records with start_offset <= offset < end_offset; MalformedBatchError if a batch's records do not match its header."""
        if self._left <= 0:
            self._left = 1 << 62
            self._decode = compiled_decode() or self._decode
        found = self._decode(group, start_offset, end_offset)
        self._left -= found.count
        return found


def compiled_decode() -> Decode | None:
    """Return the function in machine code; None if numba is not installed."""
    try:
        from minibroker.spark.kafka_log import compiled  # noqa: PLC0415  numba is optional, and takes half a second
    except ImportError:
        return None

    def decode(group: Group, start_offset: int, end_offset: int) -> RecordColumns:
        headers = group.headers
        batches = np.empty((len(headers), 8), np.int64)
        batches[:, compiled.START] = group.starts
        batches[:, compiled.STOP] = group.stops
        batches[:, compiled.RECORD_COUNT] = headers["record_count"]
        batches[:, compiled.BASE_OFFSET] = headers["base_offset"]
        batches[:, compiled.LAST_OFFSET_DELTA] = headers["last_offset_delta"]
        batches[:, compiled.BASE_TIMESTAMP] = headers["base_timestamp"]
        batches[:, compiled.IS_APPEND_TIME] = (headers["attributes"] & LOG_APPEND_TIME_FLAG) != 0
        batches[:, compiled.MAX_TIMESTAMP] = headers["max_timestamp"]
        return compiled.CompiledColumns(group.data, batches, start_offset, end_offset)

    return decode


def decode_with_numpy(group: Group, start_offset: int, end_offset: int, splitter: Splitter = SPLITTER) -> FieldColumns:
    """Return the same records, decoded with numpy."""
    headers = group.headers
    data = group.data[: int(group.stops.max(initial=0)) + PADDING].tobytes()
    counts = headers["record_count"].astype(np.int64)
    fields = read_fields(Payloads(data, group.starts, group.stops, counts, headers["last_offset_delta"].astype(np.int64)), splitter)
    batches = fields.batches
    offsets = headers["base_offset"].astype(np.int64)[batches] + fields.offset_deltas
    is_append_time = (headers["attributes"] & LOG_APPEND_TIME_FLAG) != 0
    timestamps = headers["base_timestamp"].astype(np.int64)[batches] + fields.timestamp_deltas
    if is_append_time.any():
        timestamps = np.where(is_append_time[batches], headers["max_timestamp"].astype(np.int64)[batches], timestamps)
    beyond = (timestamps > MAX_TIMESTAMP) | (timestamps < -MAX_TIMESTAMP)
    if beyond.any():
        raise MalformedBatchError("a timestamp that Spark cannot hold", int(batches[int(np.argmax(beyond))]))
    chosen = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
    types = is_append_time.astype(np.int32)[batches]
    return FieldColumns(fields, Rows(chosen, offsets[chosen], timestamps[chosen], types[chosen]))


DECODER = Decoder()
