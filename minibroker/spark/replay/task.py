"""The task of an executor: write the records of one target partition, in order, in transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from minibroker.client.client import Client
from minibroker.records.batch import NO_TIMESTAMP
from minibroker.records.compression import Compression
from minibroker.spark.client_config import connect_of
from minibroker.spark.failures import ReplayError
from minibroker.spark.replay.encode import Columns, Packer, narrow
from minibroker.spark.replay.writer import PartitionWriter, Target, WriterSettings

#: the columns that a task reads; the last two are optional
TARGET, OFFSET, KEY, VALUE, HEADERS, TIMESTAMP = "target", "offset", "key", "value", "headers", "timestamp"
#: the one row that a task returns
RESULT = pa.schema([pa.field("target", pa.int32()), pa.field("records", pa.int64())])
RESULT_DDL = "target int, records long"
MICROSECONDS = 1000  #: in a millisecond


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """A function for executors: Spark calls it with the batches of one Spark partition."""

    bootstrap_servers: str
    timeout_ms: int  #: how long brokers may be unreachable
    targets: Mapping[int, Target]  #: by their numbers in the rows
    settings: WriterSettings
    compression: Compression
    batch_bytes: int
    records_per_s: float | None  #: of one task
    client_config: Mapping[str, str] = field(repr=False)  #: what `executor_config` returned; it has secrets

    def __call__(self, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the records; yield the target's number and the record count."""
        batches = iter(record_batches)
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        index = first.column(TARGET)[0].as_py()
        with Client(self.bootstrap_servers, timeout_ms=self.timeout_ms, connect=connect_of(self.client_config)) as client:
            writer = PartitionWriter(client, self.settings, self.targets[index])
            try:
                count = self._write(writer, index, first, batches)
                writer.commit()
            except BaseException:
                writer.abort()
                raise
        yield pa.RecordBatch.from_arrays([pa.array([index], pa.int32()), pa.array([count], pa.int64())], schema=RESULT)

    def _write(self, writer: PartitionWriter, index: int, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
        target = self.targets[index]
        pace = Pace(self.records_per_s)
        packer = Packer(self.compression, self.batch_bytes, pace.burst_records, target.max_message_bytes)
        order = _Order(target, is_numbered=self.settings.is_resumable)
        count = 0
        batch: pa.RecordBatch | None = first
        while batch is not None:
            if batch.num_rows and not writer.is_done:
                targets = batch.column(TARGET).to_numpy()
                if int(targets.min()) != index or int(targets.max()) != index:
                    raise ReplayError(f"rows of several partitions came to the task of {target}: a bug in minibroker")
                columns = order.columns(batch)
                start = int(np.searchsorted(columns.offsets, writer.position))
                for packed in packer.batches(columns.part(start, len(columns)), str(target)):
                    pace.wait(packed.record_count)
                    writer.add(packed)
                    count += packed.record_count
            batch = next(rest, None)
        return count


class _Order:
    """Takes the columns of batches and checks that old offsets ascend; numbers records without offsets."""

    def __init__(self, target: Target, *, is_numbered: bool) -> None:
        self._target = target
        self._is_numbered = is_numbered
        self._next_offset = 0

    def columns(self, batch: pa.RecordBatch) -> Columns:
        if self._is_numbered:
            offsets = batch.column(OFFSET).to_numpy()
            falls = np.flatnonzero(np.diff(offsets, prepend=self._next_offset - 1) <= 0)
            if falls.size:
                source = f"{self._target.source_topic}-{self._target.source_partition}"
                raise ReplayError(f"the source has offset {offsets[falls[0]]} of {source} twice: each offset must occur once")
        else:
            offsets = np.arange(self._next_offset, self._next_offset + batch.num_rows)
        self._next_offset = int(offsets[-1]) + 1
        names = batch.schema.names
        headers = narrow(batch.column(HEADERS)) if HEADERS in names else None
        return Columns(narrow(batch.column(KEY)), narrow(batch.column(VALUE)), headers, _timestamps(batch), offsets)


def _timestamps(batch: pa.RecordBatch) -> np.ndarray:
    """Return epoch ms of each record: its timestamp, or now."""
    if TIMESTAMP not in batch.schema.names:
        return np.full(batch.num_rows, time.time_ns() // 1_000_000, np.int64)
    column = batch.column(TIMESTAMP).cast(pa.int64())
    microseconds: np.ndarray = column.fill_null(NO_TIMESTAMP * MICROSECONDS).to_numpy()
    return microseconds // MICROSECONDS


class Pace:
    """Limits the rate to `records_per_s`; None is no limit. Tests replace `now_s` and `sleep`."""

    def __init__(
        self, records_per_s: float | None, *, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._records_per_s = records_per_s
        self._now_s = now_s
        self._sleep = sleep
        self._next_s = now_s()

    @property
    def burst_records(self) -> int:
        """The records that may go at once: those of one second."""
        return 1 << 31 if self._records_per_s is None else max(1, int(self._records_per_s))

    def wait(self, count: int) -> None:
        """Wait until `count` more records may go; unused time is not made up for."""
        if self._records_per_s is None:
            return
        now_s = self._now_s()
        if self._next_s > now_s:
            self._sleep(self._next_s - now_s)
        self._next_s = max(self._next_s, now_s) + count / self._records_per_s
