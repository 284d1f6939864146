"""Turn positions of fields into Arrow columns with the schema of Spark's Kafka source.

This module does it for fields.py, compiled.py for machine code. Arrow copies the bytes once: it sees the
payload as an array of binary values (key, gap, value, gap, ...), and `take` keeps the requested values.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from minibroker.spark.kafka_log.fields import Fields, Headers
from minibroker.spark.kafka_log.options import CORRUPT_RECORD, HEADERS

NO_TIMESTAMP_TYPE = -1

HEADER_TYPE = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    HEADERS: pa.list_(HEADER_TYPE),
    CORRUPT_RECORD: pa.string(),
}
CONSTANT = {"topic", "partition", CORRUPT_RECORD}  #: columns with one value for all records of a task


class RecordColumns(Protocol):
    """Decoded records, as a source of columns."""

    @property
    def count(self) -> int:
        """The number of records."""

    def array(self, role: str) -> pa.Array:
        """Return the column of this name with its type in TYPES. It holds no reference to the payload buffer."""


class TableBuilder:
    """Make record batches of one partition with the columns `names`; `corrupt_column` is the user's name of CORRUPT_RECORD."""

    def __init__(self, topic: str, partition: int, names: tuple[str, ...], corrupt_column: str | None = None) -> None:
        self._topic = topic
        self._partition = partition
        self.roles = tuple(CORRUPT_RECORD if name == corrupt_column else name for name in names)
        self.schema = pa.schema([pa.field(name, TYPES[role]) for name, role in zip(names, self.roles, strict=True)])
        self._constants: dict[str, pa.Array] = {}

    def record_batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """Return all records as a record batch."""
        arrays = [self._constant(role, columns.count) if role in CONSTANT else columns.array(role) for role in self.roles]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_values(self, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        """Return rows from ready-made columns; topic and partition are added, and other missing columns are null."""
        arrays = [
            columns[role] if role in columns else self._constant(role, count) if role in CONSTANT else pa.nulls(count, TYPES[role])
            for role in self.roles
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _constant(self, name: str, count: int) -> pa.Array:
        array = self._constants.get(name)
        if array is None or len(array) < count:
            value = {"topic": self._topic, "partition": self._partition}.get(name)
            array = self._constants[name] = pa.repeat(pa.scalar(value, TYPES[name]), max(count, 1024))
        return array[:count]


class Rows(NamedTuple):
    """The records to keep, with values from their batches; arrays have one item per kept record."""

    chosen: np.ndarray  #: their numbers in `fields`, ascending
    offsets: np.ndarray
    timestamps: np.ndarray  #: epoch ms
    timestamp_types: np.ndarray


class FieldColumns:
    """Columns of the fields that numpy found."""

    def __init__(self, fields: Fields, rows: Rows) -> None:
        self._fields = fields
        self._rows = rows

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self._rows.chosen)

    def array(self, role: str) -> pa.Array:
        """Return one of `key`, `value`, `offset`, `timestamp`, `timestampType`, `headers`."""
        fields, rows = self._fields, self._rows
        match role:
            case "key":
                return take_bytes(fields.data, _keys_and_values(fields), rows.chosen, 0, fields.key_is_null)
            case "value":
                return take_bytes(fields.data, _keys_and_values(fields), rows.chosen, 2, fields.value_is_null)
            case "offset":
                return pa.array(rows.offsets)
            case "timestamp":
                return timestamp_array(rows.timestamps)
            case "timestampType":
                return pa.array(rows.timestamp_types.astype(np.int32, copy=False))
            case _:
                return header_lists(fields.data, fields.headers, rows.chosen, len(fields.batches))


def _keys_and_values(fields: Fields) -> np.ndarray:
    """Return one row per record: the bounds of its key and of its value."""
    return np.stack([fields.key_starts, fields.key_stops, fields.value_starts, fields.value_stops], axis=1)


def take_bytes(data: bytes, bounds: np.ndarray, chosen: np.ndarray, column: int, is_null: np.ndarray) -> pa.Array:
    """Return the values between bounds[:, column] and bounds[:, column + 1] of the chosen rows; all `bounds` ascend, row by row."""
    count = len(bounds)
    if not count or is_null.all():
        return pa.nulls(len(chosen), pa.binary())
    # The array of this column has value i at 2 * i, and the bytes between two values at odd places.
    offsets = np.ascontiguousarray(bounds[:, column : column + 2], np.int32).reshape(-1)
    values = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    nulls = is_null[chosen]
    return values.take(pa.array(2 * chosen, mask=nulls if nulls.any() else None))


def timestamp_array(milliseconds: np.ndarray) -> pa.Array:
    """Return epoch ms as Spark's timestamps, which are microseconds."""
    return pa.array(milliseconds.astype(np.int64, copy=False) * 1000, pa.int64()).view(TYPES["timestamp"])


def header_lists(data: bytes, headers: Headers, chosen: np.ndarray, record_count: int) -> pa.Array:
    """Return the headers of the chosen records; null for a record without headers, as in Spark's Kafka source."""
    if not headers.rows.size:
        return pa.nulls(len(chosen), TYPES[HEADERS])
    counts = np.bincount(headers.rows, minlength=record_count)
    kept = np.zeros(record_count, bool)
    kept[chosen] = True
    taken = np.flatnonzero(kept[headers.rows])
    bounds = np.stack([headers.key_starts, headers.key_stops, headers.value_starts, headers.value_stops], axis=1)
    keys = take_bytes(data, bounds, taken, 0, np.zeros(len(headers.rows), bool))
    values = take_bytes(data, bounds, taken, 2, headers.value_is_null)
    return header_array(keys, values, counts[chosen])


def header_array(keys: pa.Array, values: pa.Array, counts: np.ndarray) -> pa.Array:
    """Return lists of headers, `counts` per record; null for a record without headers."""
    entries = pa.StructArray.from_arrays([as_text(keys), values], fields=list(HEADER_TYPE))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=TYPES[HEADERS], mask=pa.array(counts == 0))


def as_text(values: pa.Array) -> pa.Array:
    """Return UTF-8 text; invalid bytes become replacement characters, as in the Java client."""
    if values.type == pa.null() or values.null_count == len(values):
        return values.cast(pa.string())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in values.to_pylist()], pa.string())
