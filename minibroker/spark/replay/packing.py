"""Cut columns of records into batches that a topic accepts; encode and compress them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minibroker.records.batch import HEADER_SIZE, NO_SEQUENCE, TRANSACTIONAL_FLAG
from minibroker.records.builder import frame_batch
from minibroker.records.compression import Compression, compress
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.encode import Columns, encode_payload, header_sizes, sizes_of

RECORD_OVERHEAD_BYTES = 20  #: lengths, deltas and attributes of most records take less


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
    """Makes batches for one topic."""

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
