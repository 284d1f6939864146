"""Positions of fields become columns of Arrow: the schema of Spark's Kafka source.

Here those of fields.py, in compiled_columns.py those of machine code. Bytes are copied once, by Arrow: the payload is seen as an array of
binary values (key, what is between, value, what is between, ...), of which `take` keeps those that are asked for.
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
CONSTANT = {"topic", "partition", CORRUPT_RECORD}  #: columns that say the same of all records of a task


class RecordColumns(Protocol):
    """Records whose columns can be made: `count` of them."""

    @property
    def count(self) -> int:
        """Rows."""

    def array(self, role: str) -> pa.Array:
        """The column of this name, of the type in TYPES, which keeps nothing of the buffer of payloads."""


class TableBuilder:
    """Makes record batches of one partition with some columns, in the order of `names`; CORRUPT_RECORD may have a name of the user's."""

    def __init__(self, topic: str, partition: int, names: tuple[str, ...], corrupt_column: str | None = None) -> None:
        self._topic = topic
        self._partition = partition
        self.roles = tuple(CORRUPT_RECORD if name == corrupt_column else name for name in names)
        self.schema = pa.schema([pa.field(name, TYPES[role]) for name, role in zip(names, self.roles, strict=True)])
        self._constants: dict[str, pa.Array] = {}

    def record_batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """All of these records."""
        arrays = [self._constant(role, columns.count) if role in CONSTANT else columns.array(role) for role in self.roles]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def of_values(self, columns: dict[str, pa.Array], count: int) -> pa.RecordBatch:
        """Rows whose columns are there already; the topic and the partition are added, and what is missing is null."""
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
    """The records to keep, and what their batches say of them; arrays have one item a kept record."""

    chosen: np.ndarray  #: their numbers in `fields`, growing
    offsets: np.ndarray
    timestamps: np.ndarray  #: epoch ms
    timestamp_types: np.ndarray


class FieldColumns:
    """Columns of what numpy found, by Arrow."""

    def __init__(self, fields: Fields, rows: Rows) -> None:
        self._fields = fields
        self._rows = rows

    @property
    def count(self) -> int:
        """Rows."""
        return len(self._rows.chosen)

    def array(self, role: str) -> pa.Array:
        """One of `key`, `value`, `offset`, `timestamp`, `timestampType`, `headers`."""
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
    """Bounds of key and value of each record, in turn."""
    return np.stack([fields.key_starts, fields.key_stops, fields.value_starts, fields.value_stops], axis=1)


def take_bytes(data: bytes, bounds: np.ndarray, chosen: np.ndarray, column: int, is_null: np.ndarray) -> pa.Array:
    """The values between bounds[:, column] and bounds[:, column + 1] of the chosen rows; all of `bounds` grow, row by row."""
    count = len(bounds)
    if not count or is_null.all():
        return pa.nulls(len(chosen), pa.binary())
    # Only these bounds matter to this column: value i is 2 * i, what lies between is in the odd places.
    offsets = np.ascontiguousarray(bounds[:, column : column + 2], np.int32).reshape(-1)
    values = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    nulls = is_null[chosen]
    return values.take(pa.array(2 * chosen, mask=nulls if nulls.any() else None))


def timestamp_array(milliseconds: np.ndarray) -> pa.Array:
    """Epoch ms as Spark's timestamps, which are microseconds."""
    return pa.array(milliseconds.astype(np.int64, copy=False) * 1000, pa.int64()).view(TYPES["timestamp"])


def header_lists(data: bytes, headers: Headers, chosen: np.ndarray, record_count: int) -> pa.Array:
    """The headers of the chosen records; null where a record has none, as the Kafka source has it."""
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
    """So many headers for each record; null where that is none."""
    entries = pa.StructArray.from_arrays([as_text(keys), values], fields=list(HEADER_TYPE))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), entries, type=TYPES[HEADERS], mask=pa.array(counts == 0))


def as_text(values: pa.Array) -> pa.Array:
    """UTF-8; what is none is replaced as the Java client does."""
    if values.type == pa.null() or values.null_count == len(values):
        return values.cast(pa.string())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode(errors="replace") for value in values.to_pylist()], pa.string())
