"""Cut records in Arrow columns into batches that a topic accepts, and encode each batch, all its records at once.

records/record.py writes field by field. Here Arrow concatenates columns:

    head    length, attributes, timestamp_delta, offset_delta, key_length        numbers, as varints
    key
    middle  value_length
    value
    tail    header_count, and the headers, encoded in the same way from the list's columns

The varints of a record are a row in a matrix of bytes, of which the used bytes are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from minibroker.records.batch import HEADER_SIZE, NO_SEQUENCE, TRANSACTIONAL_FLAG
from minibroker.records.builder import frame_batch
from minibroker.records.compression import Compression, compress
from minibroker.spark.failures import ReplayError, SourceError

NULL = -1
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_NOTHING = pa.scalar(b"", pa.binary())
_NO_HEADERS = pa.scalar(b"\0", pa.binary())
RECORD_OVERHEAD_BYTES = 20  #: lengths, deltas and attributes of most records take less


@dataclass(frozen=True, slots=True)
class Columns:
    """Records in order: arrays of one length."""

    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.ListArray | None  #: of structs (key: text, value: binary); null for no header
    timestamps: np.ndarray  #: epoch ms, -1 for none
    offsets: np.ndarray  #: the old offsets; not encoded, since records get new numbers

    def __len__(self) -> int:
        return len(self.offsets)

    def part(self, start: int, stop: int) -> Columns:
        """Return the records from `start` up to `stop`, without copying."""
        count = stop - start
        headers = None if self.headers is None else self.headers.slice(start, count)
        return Columns(
            self.keys.slice(start, count),
            self.values.slice(start, count),
            headers,
            self.timestamps[start:stop],
            self.offsets[start:stop],
        )


class HeaderColumns(NamedTuple):
    """Headers of records: their counts, and the bytes of each record's headers."""

    counts: np.ndarray
    encoded: pa.BinaryArray


def encode_payload(columns: Columns, base_timestamp: int) -> memoryview:
    """Return the uncompressed records of a batch, with offset deltas 0, 1, 2 and so on."""
    count = len(columns)
    key_sizes, value_sizes = sizes_of(columns.keys), sizes_of(columns.values)
    headers = encode_headers(columns.headers)
    timestamp_deltas = Varints(columns.timestamps - base_timestamp)
    offset_deltas = Varints(np.arange(count, dtype=np.int64))
    key_lengths, value_lengths = Varints(key_sizes), Varints(value_sizes)
    lengths = 1 + timestamp_deltas.sizes + offset_deltas.sizes + key_lengths.sizes + value_lengths.sizes
    lengths += np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    pieces: list[pa.Array | pa.Scalar] = []
    if headers is None:
        lengths += 1
        pieces = [_NO_HEADERS]
    else:
        header_counts = Varints(headers.counts)
        lengths += header_counts.sizes + sizes_of(headers.encoded)
        pieces = [joined_varints(header_counts), headers.encoded]
    head = joined_varints(Varints(lengths), ATTRIBUTES, timestamp_deltas, offset_deltas, key_lengths)
    return _concatenated(head, columns.keys, joined_varints(value_lengths), columns.values, *pieces)


def narrow(column: pa.Array) -> pa.Array:
    """Return keys, values or headers with offsets of 32 bits; spark.sql.execution.arrow.useLargeVarTypes makes 64."""
    if pa.types.is_large_binary(column.type):
        return column.cast(pa.binary())
    if pa.types.is_list(column.type) and pa.types.is_large_binary(column.type.value_type.field(1).type):
        return column.cast(HEADERS)
    return column


def sizes_of(values: pa.BinaryArray) -> np.ndarray:
    """Return the bytes of each value, NULL for null; int64."""
    sizes: np.ndarray = pc.binary_length(values).fill_null(NULL).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def header_sizes(headers: pa.ListArray | None, count: int) -> np.ndarray:
    """Return about how many bytes the headers of each record take."""
    sizes = np.zeros(count, np.int64)
    encoded = encode_headers(headers)
    return sizes if encoded is None else sizes_of(encoded.encoded)


def encode_headers(headers: pa.ListArray | None) -> HeaderColumns | None:
    """Return the headers of each record, without their count; None if no record has any. SourceError for a header without a key."""
    if headers is None or not len(headers):
        return None
    entries = headers.flatten()  # skips entries under nulls
    if not len(entries):
        return None
    names, values = entries.field(0).cast(pa.binary()), entries.field(1)
    if entries.null_count or names.null_count:
        raise SourceError("a record has a header without a key, which Kafka does not support: leave it out")
    encoded = _join(joined_varints(Varints(sizes_of(names))), names, joined_varints(Varints(sizes_of(values))), values)
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # The headers of a record are adjacent, so those of record i start with its first one.
    starts = np.frombuffer(encoded.buffers()[1], np.int32)[encoded.offset : encoded.offset + len(encoded) + 1]
    offsets = starts[np.concatenate([[0], np.cumsum(counts)])]
    of_records = pa.Array.from_buffers(pa.binary(), len(headers), [None, pa.py_buffer(offsets), encoded.buffers()[2]])
    return HeaderColumns(counts, of_records)


class Varints:
    """Numbers of 64 bits, and their sizes as zigzag varints."""

    __slots__ = ("sizes", "zigzag")

    def __init__(self, numbers: np.ndarray) -> None:
        self.zigzag = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        self.sizes = np.ones(len(numbers), np.int64)
        left = self.zigzag >> np.uint64(7)
        while left.any():
            self.sizes += left != 0
            left >>= np.uint64(7)


class _Attributes:
    """A column of one zero byte: the attributes of records are unused."""


ATTRIBUTES = _Attributes()


def joined_varints(*columns: Varints | _Attributes) -> pa.BinaryArray:
    """Return one value per row: the varints of all columns, concatenated."""
    numbers = [column for column in columns if isinstance(column, Varints)]
    count = len(numbers[0].sizes)
    widths = [int(column.sizes.max(initial=1)) if isinstance(column, Varints) else 1 for column in columns]
    matrix = np.zeros((count, sum(widths)), np.uint8)
    is_used = np.ones((count, sum(widths)), bool)
    position = 0
    for column, width in zip(columns, widths, strict=True):
        if isinstance(column, Varints):
            for index in range(width):
                byte = (column.zigzag >> np.uint64(7 * index)).astype(np.uint8)
                byte &= 0x7F
                goes_on = column.sizes > index + 1
                byte |= goes_on.view(np.uint8) << 7
                matrix[:, position + index] = byte
                if index:
                    is_used[:, position + index] = column.sizes > index
        position += width
    sizes = sum(column.sizes for column in numbers) + (len(columns) - len(numbers))
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = matrix if int(offsets[-1]) == matrix.size else matrix[is_used]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data.reshape(-1))])


def _join(*pieces: pa.Array | pa.Scalar) -> pa.BinaryArray:
    """Concatenate the pieces row by row; null is empty."""
    filled = [pc.fill_null(piece, b"") if isinstance(piece, pa.Array) and piece.null_count else piece for piece in pieces]
    return pc.binary_join_element_wise(*filled, _NOTHING)


def _concatenated(*pieces: pa.Array | pa.Scalar) -> memoryview:
    """Return all rows of `_join`, concatenated."""
    joined = _join(*pieces)
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]


class PackedBatch(NamedTuple):
    """An encoded batch without the fields that only its producer knows."""

    packed: bytes | memoryview
    compression: Compression
    base_timestamp: int  #: epoch ms
    max_timestamp: int  #: epoch ms
    old_offsets: np.ndarray

    @property
    def record_count(self) -> int:
        """The number of records."""
        return len(self.old_offsets)

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return HEADER_SIZE + len(self.packed)

    def framed(self, producer_id: int, producer_epoch: int, base_sequence: int = NO_SEQUENCE) -> bytearray:
        """Return the batch of a transactional producer."""
        return frame_batch(
            self.packed,
            self.compression | TRANSACTIONAL_FLAG,
            0,
            self.record_count - 1,
            self.base_timestamp,
            self.max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            self.record_count,
        )


@dataclass(frozen=True, slots=True)
class Packer:
    """Creates batches for one topic."""

    compression: Compression
    batch_bytes: int  #: of records before compression, about
    batch_records: int  #: at most
    max_message_bytes: int  #: of a whole batch; the topic's config of this name

    def batches(self, columns: Columns, what: str) -> Iterator[PackedBatch]:
        """Yield the records in batches; ReplayError for a record that is too large for the topic-partition `what`."""
        for start, stop in self._cuts(columns):
            yield from self._packed(columns.part(start, stop), what)

    def _cuts(self, columns: Columns) -> Iterator[tuple[int, int]]:
        """Yield bounds of batches of about equal size, so that the last one is not small."""
        count = len(columns)
        sizes = np.maximum(sizes_of(columns.keys), 0) + np.maximum(sizes_of(columns.values), 0) + RECORD_OVERHEAD_BYTES
        ends = np.cumsum(sizes + header_sizes(columns.headers, count))
        limit = min(self.batch_bytes, self.max_message_bytes - HEADER_SIZE)
        total = int(ends[-1]) if count else 0
        share = total / max(1, -(-total // limit))
        start = 0
        while start < count:
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + min(limit, share + 1), side="right"))
            stop = min(max(stop, start + 1), start + self.batch_records, count)
            yield start, stop
            start = stop

    def _packed(self, columns: Columns, what: str) -> Iterator[PackedBatch]:
        """Yield one batch, or its halves if it is too large."""
        base_timestamp = int(columns.timestamps[0])
        payload = encode_payload(columns, base_timestamp)
        packed: bytes | memoryview = payload
        compression = self.compression
        if compression:
            packed = compress(compression, payload)
            if len(packed) >= len(payload):  # incompressible
                packed, compression = payload, Compression.NONE
        size = HEADER_SIZE + len(packed)
        if size > self.max_message_bytes:
            if len(columns) == 1:
                raise ReplayError(
                    f"the record at offset {columns.offsets[0]} is too large for {what}: its batch has {size} bytes, and the topic's"
                    f" max.message.bytes is {self.max_message_bytes}; raise that"
                )
            middle = len(columns) // 2
            yield from self._packed(columns.part(0, middle), what)
            yield from self._packed(columns.part(middle, len(columns)), what)
            return
        yield PackedBatch(packed, compression, base_timestamp, int(columns.timestamps.max()), columns.offsets)
