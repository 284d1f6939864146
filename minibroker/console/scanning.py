"""Find records in batches of a log, for a page. `Scan.of_file` runs in a process of its own, the rest in a worker thread.

A scan does not know transactions: their rows have the state UNSETTLED, until the loop looks it up (reading.py). The module and what it
imports are small, because a search waits for their import in a new process.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from minibroker.console.filters import Filter, UnknownSchemaError
from minibroker.console.values import shown, visible
from minibroker.errors import KafkaError
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import LOG_OVERHEAD, RecordBatch, TimestampType, increment_sequence
from minibroker.records.compression import Compression, decompress
from minibroker.records.control import parse_control_key
from minibroker.records.record import Record
from minibroker.storage.file_slice import LEAST_SIZE, FileRange

CHUNK_BYTES: Final = 2 * LEAST_SIZE  #: of a log, read at a time: enough that the log leaves reading them to us
RECORD: Final = "record"
UNSETTLED: Final = "unsettled"
CHUNK_S: Final = 0.2  #: for the values of a chunk in a worker thread: a small chunk may have many, if they are compressed
KEPT_MAX: Final = 32 * 1024 * 1024  #: bytes of keys and values that a scan returns for decoding, besides those of the last row
RESTS: Final = 3  #: how much longer a search rests than it works, if it disturbs the broker
_UNDISTURBED: Final = 1.2  #: how much longer than its processor time work may take on a machine that is not busy
_MEMORY_MAX: Final = 1 << 30  #: of the process: values of JSON take many times their size
_HEADERS_SHOWN: Final = 50
_NAME_SHOWN: Final = 256  #: letters of a header's name


class Found(NamedTuple):
    """What a scan has found."""

    rows: list[dict[str, Any]]
    next_offset: int  #: where the search goes on
    record_count: int  #: how many records were looked at
    is_cut: bool = False  #: whether matches before the first row are left out, because together they have too many bytes
    unknown_schema: int | str | None = None  #: the scan stopped before a record that names it: the filter needs it first


class Scan(NamedTuple):
    """What to look for. The rows of `run` and `of_file` are JSON objects."""

    offset: int
    row_count: int  #: at most
    wanted: Filter | None = None
    end_offset: int = 1 << 63  #: exclusive
    takes_last: bool = False  #: whether to return the last rows, not the first
    keeps_records: bool = False  #: whether rows have their record in the field RECORD, to be decoded

    def run(self, data: bytes) -> Found:
        """Scan batches; the last one may be cut off. Raises CorruptMessage."""
        scanner = _Scanner(self, CHUNK_S)
        scanner.take(data)
        return scanner.found()

    def of_file(self, place: FileRange, limit_s: float) -> Found:
        """Scan a file for about `limit_s`. Raises CorruptMessage, OSError."""
        scanner, end_s = _Scanner(self, limit_s), time.monotonic() + limit_s
        with _memory_limited(), place.opened() as descriptor:
            position, size = 0, CHUNK_BYTES
            began_s, began_cpu_s = time.monotonic(), time.thread_time()
            while position < place.size and not scanner.is_over:
                data = place.read(descriptor, position, size)
                taken = scanner.take(data)
                position += taken
                whole = LOG_OVERHEAD + int.from_bytes(data[LOG_OVERHEAD - 4 : LOG_OVERHEAD], "big")
                if not taken and (whole <= size or position + whole > place.size):
                    break  # the file is shorter than it was
                size = CHUNK_BYTES if taken else whole
                if taken and time.monotonic() >= end_s:
                    break
                began_s, began_cpu_s = _rest(began_s, began_cpu_s)
        return scanner.found()


def _rest(began_s: float, began_cpu_s: float) -> tuple[float, float]:
    """Rest after work if other processes wanted the processor meanwhile: what this one takes may be taken from the broker's share.

    Returns:
        The time and the processor time from which the next work counts.
    """
    worked_s = time.thread_time() - began_cpu_s
    if time.monotonic() - began_s > _UNDISTURBED * worked_s:
        time.sleep(RESTS * worked_s)
    return time.monotonic(), time.thread_time()


@contextlib.contextmanager
def _memory_limited() -> Iterator[None]:
    """Let a value that takes too much memory raise MemoryError. Other work of the process has no limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(ValueError):  # not on every system
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX if hard == resource.RLIM_INFINITY else min(_MEMORY_MAX, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Scanner:
    """A scan under way."""

    def __init__(self, scan: Scan, limit_s: float) -> None:
        """`limit_s`: for comparing values. The way to the first one does not count: it may take as long, and is no progress."""
        self._scan = scan
        self._limit_s = limit_s
        self._end_s: float | None = None  #: None: no value was compared yet
        self._rows: deque[dict[str, Any]] = deque()
        self._kept_bytes = 0
        self._record_count = 0
        self._is_cut = False
        self._next_offset = scan.offset
        self._unknown_schema: int | str | None = None
        self.is_over = False

    def found(self) -> Found:
        """Return the rows so far."""
        return Found([*self._rows], self._next_offset, self._record_count, self._is_cut, self._unknown_schema)

    def take(self, data: bytes) -> int:
        """Look at whole batches, and return the size of those that were looked at."""
        size = 0
        for batch in split_batches(data, allow_partial=True):
            if batch.base_offset >= self._scan.end_offset:
                self._next_offset = max(self._next_offset, self._scan.end_offset)
                self.is_over = True
            if self.is_over:
                break
            try:
                self._take_batch(batch)
            except (KafkaError, MemoryError) as error:
                self._add({"offset": batch.base_offset, "error": f"the batch cannot be read: {str(error) or 'it takes too much memory'}"})
            if not self.is_over:
                self._next_offset = max(self._next_offset, batch.next_offset)
            size += batch.size
        return size

    def _take_batch(self, batch: RecordBatch) -> None:
        offset, _, wanted, end_offset, _, keeps_record = self._scan
        records = _records(batch, wanted)
        if records is None:
            self._record_count += batch.record_count
            return
        for record in records:
            if record.offset < offset:
                continue
            if record.offset >= end_offset or self._is_full() or self._is_late():
                self._next_offset = min(record.offset, end_offset)
                self.is_over = True
                return
            try:
                is_match = wanted is None or wanted.matches(record)
            except UnknownSchemaError as error:
                self._unknown_schema = error.schema_id
                self._next_offset = record.offset
                self.is_over = True
                return
            self._record_count += 1
            if is_match:
                row = row_of(batch, record, UNSETTLED if batch.is_transactional and not batch.is_control else "")
                self._add(row | {RECORD: record} if keeps_record else row)

    def _is_full(self) -> bool:
        return not self._scan.takes_last and (len(self._rows) >= self._scan.row_count or self._kept_bytes > KEPT_MAX)

    def _is_late(self) -> bool:
        wanted = self._scan.wanted
        if wanted is None or wanted.json_path is None:
            return False
        if self._end_s is None:
            self._end_s = time.monotonic() + self._limit_s
            return False
        return time.monotonic() >= self._end_s

    def _add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._kept_bytes += kept_size(row)
        while self._scan.takes_last and len(self._rows) > 1 and (len(self._rows) > self._scan.row_count or self._kept_bytes > KEPT_MAX):
            self._is_cut |= len(self._rows) <= self._scan.row_count
            self._kept_bytes -= kept_size(self._rows.popleft())


def kept_size(row: dict[str, Any]) -> int:
    """Return the bytes of key and value that a row keeps for decoding."""
    record: Record | None = row.get(RECORD)
    return 0 if record is None else len(record.key or b"") + len(record.value or b"")


def order_of(row: dict[str, Any]) -> tuple[int, int, int]:
    """Return by what rows of several partitions are sorted, the oldest first."""
    return row.get("timestamp_ms", 0), row["partition"], row["offset"]


def _records(batch: RecordBatch, wanted: Filter | None) -> Iterable[Record] | None:
    """Return the records of a batch; None if the filter cannot match any. Markers are shown when there is no filter."""
    if wanted is None or wanted.is_empty:
        return decode_records(batch)
    if batch.is_control or not _is_in_time(batch, wanted):
        return None
    if batch.magic >= 2 and (wanted.text or wanted.key):
        kind = batch.compression
        payload = batch.payload if kind is Compression.NONE else memoryview(decompress(kind, batch.payload))
        if not wanted.may_be_in(payload):
            return None
    return decode_records(batch)


def _is_in_time(batch: RecordBatch, wanted: Filter) -> bool:
    return wanted.from_ms is None or batch.magic < 2 or batch.max_timestamp >= wanted.from_ms


def row_of(batch: RecordBatch, record: Record, state: str) -> dict[str, Any]:
    """Return a record as JSON, with what its batch says of it."""
    sequence = increment_sequence(batch.base_sequence, record.offset - batch.base_offset) if batch.base_sequence >= 0 else None
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "timestamp_type": "LogAppendTime" if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime",
        "key": shown(record.key),
        "value": shown(record.value),
        "headers": [
            {"key": visible(name[:_NAME_SHOWN]), "value": shown(content, 256)}
            for name, content in itertools.islice(record.headers, _HEADERS_SHOWN)
        ],
        "header_count": len(record.headers),
        "producer_id": batch.producer_id if batch.has_producer_id else None,
        "producer_epoch": batch.producer_epoch if batch.has_producer_id else None,
        "sequence": sequence,
        "transaction": state,
        "marker": parse_control_key(record.key).name if batch.is_control else None,
        "batch_offset": batch.base_offset,
    }
