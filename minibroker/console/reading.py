"""Read batches and records of a log for a page in a worker thread. The loop looks up where they are.

    found = await LogReader().read_rows(partition, offset, count=50)

Rows are JSON objects. They also have what consumers do not see: transaction markers, aborted records, and those above the high watermark.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from minibroker.cluster.partition import Partition
from minibroker.console.filters import Filter
from minibroker.console.values import shown, visible
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import RecordBatch, TimestampType, increment_sequence
from minibroker.records.compression import Compression, decompress
from minibroker.records.control import parse_control_key
from minibroker.records.record import Record
from minibroker.storage.file_slice import LEAST_SIZE, FileSlice
from minibroker.storage.transaction_index import AbortedTxn

T = TypeVar("T")

CHUNK_BYTES: Final = 2 * LEAST_SIZE  #: of a log, read at a time: enough that the log leaves reading them to us
PAGE_BYTES: Final = 16 * 1024 * 1024  #: of a log, read for one page
RECORD: Final = "record"
_HEADERS_SHOWN: Final = 50
_READERS: Final = 2  #: chunks of all visitors that are decoded at the same time


class Transactions(NamedTuple):
    """Which records of a range belong to aborted or open transactions."""

    aborted: list[AbortedTxn]
    open_since: dict[int, int]  #: first offset of the open transaction, by producer id

    def state(self, batch: RecordBatch, offset: int) -> str:
        """Return "committed", "aborted" or "open" for a record of a transaction, otherwise an empty text."""
        if not batch.is_transactional or batch.is_control:
            return ""
        since = self.open_since.get(batch.producer_id)
        if since is not None and offset >= since:
            return "open"
        is_aborted = any(each.producer_id == batch.producer_id and each.first_offset <= offset <= each.last_offset for each in self.aborted)
        return "aborted" if is_aborted else "committed"


class Found(NamedTuple):
    """What a chunk of a log has."""

    rows: list[dict[str, Any]]
    next_offset: int  #: where the search goes on
    record_count: int  #: how many records were looked at


def transactions_of(log: PartitionLog, first_offset: int, end_offset: int) -> Transactions:
    """Return the transactions that touch a range of a log."""
    aborted: list[AbortedTxn] = []
    if first_offset < end_offset and log.may_have_aborted(first_offset):
        aborted = log.aborted.collect(first_offset, end_offset)
    return Transactions(aborted, dict(log.producers.open_transactions.first_offsets))


class LogReader:
    """Reads the logs of one broker for all visitors."""

    def __init__(self) -> None:
        self.keeps_records = False  #: whether rows have their record in the field RECORD, to be decoded
        self._turn = asyncio.Semaphore(_READERS)

    async def read_bytes(self, partition: Partition, offset: int, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return whole batches from the one with `offset` on; empty at the log's end. Raises KafkaError."""
        data = partition.log.slice(offset, max_bytes, isolation=None)
        return await asyncio.to_thread(bytes, data) if isinstance(data, FileSlice) else data

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work on bytes that were read in a worker thread, after that of other visitors."""
        async with self._turn:
            return await asyncio.to_thread(work, *arguments)

    async def read_rows(self, partition: Partition, offset: int, count: int, wanted: Filter | None = None) -> Found:
        """Return at most `count` rows from `offset` on that match, from at most PAGE_BYTES of the log. Raises KafkaError."""
        rows: list[dict[str, Any]] = []
        looked_at = size = 0
        while len(rows) < count and size < PAGE_BYTES:
            found, read = await self.find_rows(partition, offset, count - len(rows), wanted)
            if not read:
                break
            rows += found.rows
            looked_at += found.record_count
            offset = found.next_offset
            size += read
        return Found(rows, offset, looked_at)

    async def find_rows(self, partition: Partition, offset: int, count: int, wanted: Filter | None = None) -> tuple[Found, int]:
        """Return the matching rows in the next chunk of a log, and the size of the chunk; 0 at the log's end. Raises KafkaError."""
        async with self._turn:
            log = partition.log
            offset = max(offset, log.log_start_offset)
            unread = log.slice(offset, CHUNK_BYTES, isolation=None)
            if not unread:
                return Found([], offset, 0), 0
            if log.may_have_aborted(offset):
                data, end_offset = await asyncio.to_thread(_read, unread, offset)
                transactions = transactions_of(log, offset, end_offset)
                found = await asyncio.to_thread(rows_of, data, offset, count, wanted, transactions, keeps_records=self.keeps_records)
            else:  # each visit of the thread costs the loop two turns
                transactions = transactions_of(log, offset, offset)
                found = await asyncio.to_thread(_read_rows, unread, offset, count, wanted, transactions, keeps_records=self.keeps_records)
        for row in found.rows:
            row["partition"] = partition.index
        return found, len(unread)


def _read(unread: bytes | FileSlice, offset: int) -> tuple[bytes, int]:
    """Return bytes of a log, and the offset after them. For a worker thread."""
    data = bytes(unread)
    return data, max((batch.next_offset for batch in split_batches(data, allow_partial=True)), default=offset)


def _read_rows(unread: bytes | FileSlice, *arguments: Any, **options: Any) -> Found:
    """Read bytes, and return their rows. For a worker thread."""
    return rows_of(bytes(unread), *arguments, **options)


def rows_of(
    data: bytes, offset: int, count: int, wanted: Filter | None, transactions: Transactions, *, keeps_records: bool = False
) -> Found:
    """Return the rows of batches from `offset` on. For a worker thread."""
    rows: list[dict[str, Any]] = []
    next_offset, looked_at = offset, 0
    for batch in split_batches(data, allow_partial=True):
        try:
            records = _records(batch, wanted)
            if records is None:
                looked_at += batch.record_count
                next_offset = max(next_offset, batch.next_offset)
                continue
            for record in records:
                if record.offset < offset:
                    continue
                if len(rows) >= count:
                    return Found(rows, record.offset, looked_at)
                looked_at += 1
                if wanted is None or wanted.matches(record):
                    row = row_of(batch, record, transactions.state(batch, record.offset))
                    rows.append(row | {RECORD: record} if keeps_records else row)
                next_offset = record.offset + 1
        except KafkaError as error:
            rows.append({"offset": batch.base_offset, "error": f"the batch cannot be read: {error}"})
        next_offset = max(next_offset, batch.next_offset)
    return Found(rows, next_offset, looked_at)


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
            {"key": visible(name), "value": shown(content, 256)} for name, content in itertools.islice(record.headers, _HEADERS_SHOWN)
        ],
        "header_count": len(record.headers),
        "producer_id": batch.producer_id if batch.has_producer_id else None,
        "producer_epoch": batch.producer_epoch if batch.has_producer_id else None,
        "sequence": sequence,
        "transaction": state,
        "marker": parse_control_key(record.key).name if batch.is_control else None,
        "batch_offset": batch.base_offset,
    }


def batch_row(batch: RecordBatch) -> dict[str, Any]:
    """Return the header of a batch as JSON. For a worker thread: it checks the CRC."""
    try:
        codec = batch.compression.name.lower()
    except KafkaError:
        codec = f"unknown ({batch.attributes & 7})"
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "size": batch.size,
        "codec": codec,
        "magic": batch.magic,
        "crc": f"{batch.crc & 0xFFFFFFFF:08x}",
        "is_crc_valid": batch.check_crc(),
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id if batch.has_producer_id else None,
        "producer_epoch": batch.producer_epoch if batch.has_producer_id else None,
        "base_sequence": batch.base_sequence if batch.base_sequence >= 0 else None,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "timestamp_ms": batch.max_timestamp,
        "timestamp_type": "LogAppendTime" if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else "CreateTime",
    }


def batches_of(data: bytes) -> Iterator[RecordBatch]:
    """Yield the whole batches of some bytes of a log."""
    return split_batches(data, allow_partial=True)
