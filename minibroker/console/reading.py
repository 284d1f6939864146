"""Read batches and records of a log for a page, in a worker thread or in another process. The loop looks up where they are.

    found = await reader.read_rows(partition, offset, count=50)

Rows are JSON objects. They also have what consumers do not see: transaction markers, aborted records, and those above the high watermark.

A search scans in one of the broker's worker processes (server/worker_processes.py), so that it does not hold the interpreter's lock. A
process opens the files again. It cannot if the files are in the broker's memory, or have just been replaced or deleted. Then a
worker thread scans a chunk instead, as it does for all small reads, by the same code.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from minibroker.background import Background, LowPriority, WorkLost
from minibroker.cluster.partition import Partition
from minibroker.console.pace import paced
from minibroker.console.scanning import CHUNK_BYTES, RESTS, UNSETTLED, Found, Scan
from minibroker.errors import KafkaError, UnknownServerError, UnknownTopicOrPartition
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch, TimestampType
from minibroker.storage.file_slice import FileRange, FileSlice
from minibroker.storage.transaction_index import AbortedTxn

T = TypeVar("T")

PAGE_BYTES: Final = 16 * 1024 * 1024  #: of a log, read for one page
PROCESS_S: Final = 0.5  #: until another visitor's search gets its turn
_LOST_S: Final = 15.0  #: until a process that does not answer is killed: on a busy machine it gets little time
_SMALL_BYTES: Final = 64 * 1024  #: up to which a process is not worth its start
_READERS: Final = 2  #: chunks of all visitors that are decoded at the same time


class Transactions(NamedTuple):
    """Which records of a range belong to aborted or open transactions."""

    aborted: list[AbortedTxn]
    open_since: dict[int, int]  #: first offset of the open transaction, by producer id

    def state(self, batch: RecordBatch, offset: int) -> str:
        """Return "committed", "aborted" or "open" for a record of a transaction, otherwise an empty text."""
        return "" if not batch.is_transactional or batch.is_control else self.state_of(batch.producer_id, offset)

    def state_of(self, producer_id: int, offset: int) -> str:
        """Return the state of a record that a transaction of a producer has written."""
        since = self.open_since.get(producer_id)
        if since is not None and offset >= since:
            return "open"
        is_aborted = any(each.producer_id == producer_id and each.first_offset <= offset <= each.last_offset for each in self.aborted)
        return "aborted" if is_aborted else "committed"


def transactions_of(log: PartitionLog, first_offset: int, end_offset: int) -> Transactions:
    """Return the transactions that touch a range of a log."""
    aborted: list[AbortedTxn] = []
    if first_offset < end_offset and log.may_have_aborted(first_offset):
        aborted = log.aborted.collect(first_offset, end_offset)
    return Transactions(aborted, dict(log.producers.open_transactions.first_offsets))


class LogReader:
    """Reads the logs of one broker for all visitors."""

    def __init__(self, background: Callable[[], Background]) -> None:
        """`background` returns that of the running broker."""
        self.keeps_records = False  #: whether rows have their record in the field RECORD, to be decoded
        self._background = background
        self._turn = asyncio.Semaphore(_READERS)
        self._process_turn = asyncio.Semaphore(1)

    async def read_bytes(self, partition: Partition, offset: int, max_bytes: int = CHUNK_BYTES) -> bytes:
        """Return whole batches from the one with `offset` on; empty at the log's end. Raises KafkaError."""
        data = partition.log.slice(offset, max_bytes, isolation=None)
        return await asyncio.to_thread(bytes, data) if isinstance(data, FileSlice) else data

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run work on bytes that were read in a worker thread, after that of other visitors."""
        async with self._turn:
            return await asyncio.to_thread(work, *arguments)

    async def read_rows(self, partition: Partition, offset: int, count: int) -> Found:
        """Return at most `count` rows from `offset` on, from at most PAGE_BYTES of the log. Raises KafkaError."""
        rows: list[dict[str, Any]] = []
        looked_at = size = 0
        while len(rows) < count and size < PAGE_BYTES:
            found, read = await self.find_rows(partition, Scan(offset, count - len(rows)))
            if not read:
                break
            rows += found.rows
            looked_at += found.record_count
            offset = found.next_offset
            size += read
        return Found(rows, offset, looked_at)

    async def find_rows(self, partition: Partition, scan: Scan) -> tuple[Found, int]:
        """Scan the next chunk of a log in a worker thread.

        Returns:
            What it found, and the size of the chunk; 0 at the log's end.

        Raises KafkaError.
        """
        async with self._turn:
            log = partition.log
            scan = scan._replace(offset=max(scan.offset, log.log_start_offset), keeps_records=self.keeps_records)
            unread = log.slice(scan.offset, CHUNK_BYTES, isolation=None)
            if not unread:
                return Found([], scan.offset, 0), 0
            found = await asyncio.to_thread(_run, scan, unread)
        return await _settled(found, partition, log), len(unread)

    async def search_rows(self, partition: Partition, scan: Scan) -> tuple[Found, int]:
        """Scan as much of a log as PROCESS_S allows in the search process, or one chunk in a worker thread. Otherwise as `find_rows`."""
        log = partition.log
        scan = scan._replace(offset=max(scan.offset, log.log_start_offset), keeps_records=self.keeps_records)
        place = _range_from(log, scan.offset)
        if place is None or place.size <= _SMALL_BYTES or not place.files.is_shared:
            return await self._search_chunk(partition, scan)
        async with self._process_turn:
            found: Found | None
            try:
                found = await self._in_process(partial(scan.of_file, place, PROCESS_S))
            except FileNotFoundError:  # the segment was compacted, moved or deleted
                found = None
            except MemoryError:
                raise UnknownServerError(f"the records from offset {scan.offset} on need too much memory for a search") from None
            except (OSError, WorkLost, TimeoutError) as error:
                raise UnknownServerError(f"the search process failed, try again: {str(error) or 'it did not answer in time'}") from error
        if partition.online_log is not log:
            raise UnknownTopicOrPartition("the topic was deleted while it was searched")
        if found is None:
            return await self._search_chunk(partition, scan)
        return await _settled(found, partition, log), place.size if found.next_offset > scan.offset else 0

    async def _search_chunk(self, partition: Partition, scan: Scan) -> tuple[Found, int]:
        began_s = time.monotonic()
        found = await self.find_rows(partition, scan)
        await asyncio.sleep(RESTS * (time.monotonic() - began_s))  # the loop waited for the interpreter's lock meanwhile
        return found

    async def _in_process(self, work: Callable[[], T]) -> T:
        """Return the result of work in another process, or raise its exception."""
        result: asyncio.Future[T | BaseException] = asyncio.get_running_loop().create_future()

        def done(found: T | BaseException) -> None:
            if not result.done():
                result.set_result(found)

        cancel = self._background().submit_process(LowPriority(work), done)
        try:
            found = await asyncio.wait_for(result, _LOST_S)
        finally:
            cancel()
        if isinstance(found, BaseException):
            raise found
        return found


def _run(scan: Scan, unread: bytes | FileSlice) -> Found:
    """Read bytes, and scan them. For a worker thread."""
    return scan.run(bytes(unread))


def _range_from(log: PartitionLog, offset: int) -> FileRange | None:
    """Return the rest of the segment with the first batch at or above `offset`; None at the log's end. Raises KafkaError."""
    if log.failures.offline_cause is not None:
        raise log.failures.offline_error()
    try:
        return next((found for each in log.segments.from_offset(offset) if (found := each.range_from(offset)) is not None), None)
    except OSError as error:
        raise log.failures.failed(error) from error


async def _settled(found: Found, partition: Partition, log: PartitionLog) -> Found:
    """Complete rows with their partition, and with the states of transactions, which only the broker knows. Raises KafkaError."""
    states: dict[tuple[int, int], Transactions] = {}
    async for row in paced(found.rows, every=1):
        row["partition"] = partition.index
        if row.get("transaction") == UNSETTLED:
            producer_id, offset = row["producer_id"], row["offset"]
            batch = row["batch_offset"], producer_id
            if batch not in states:
                states[batch] = transactions_of(log, offset, offset + 1)
            row["transaction"] = states[batch].state_of(producer_id, offset)
    return found


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
