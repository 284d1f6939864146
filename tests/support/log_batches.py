"""Batches as a producer sends them, and how a log's contents are read back whole."""

from __future__ import annotations

from typing import Any

from minibroker.clock import ManualClock
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.builder import build_batch
from minibroker.records.record import Record

NOW_MS = ManualClock().now_ms()


def batch_of(*values: bytes, timestamp: int = NOW_MS, **options: Any) -> memoryview:
    """One batch with a record for each value; timestamps go up by a millisecond."""
    records = [Record(index, timestamp + index, b"key", value) for index, value in enumerate(values)]
    return memoryview(build_batch(records, **options))


def idempotent_batch(producer_id: int, base_sequence: int, *values: bytes, epoch: int = 0, **options: Any) -> memoryview:
    """The same with a producer's id and sequence."""
    return batch_of(*(values or (b"v",)), producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence, **options)


def read_batches(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20) -> list[RecordBatch]:
    """Everything that a consumer at `offset` (the log start) gets, fetch after fetch."""
    offset = log.log_start_offset if offset is None else offset
    batches: list[RecordBatch] = []
    while data := log.read(offset, max_bytes, isolation=IsolationLevel.READ_UNCOMMITTED):
        got = list(split_batches(data))
        assert got[0].last_offset >= offset
        batches += got
        offset = got[-1].next_offset
    return batches


def read_values(log: PartitionLog, offset: int | None = None, *, max_bytes: int = 1 << 20) -> dict[int, bytes | None]:
    """Values by offset; every batch's CRC is checked."""
    start = log.log_start_offset if offset is None else offset
    values = {}
    for batch in read_batches(log, offset, max_bytes=max_bytes):
        assert batch.check_crc()
        for record in decode_records(batch):
            if record.offset >= start:
                assert record.offset not in values
                values[record.offset] = record.value
    return values
