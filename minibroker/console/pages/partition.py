"""A partition: segments, indexes, batches, producers. One batch, byte by byte."""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.console.annotated import annotated
from minibroker.console.pace import paced
from minibroker.console.page import NotFoundError, Page, Visit
from minibroker.console.pages.topics import quoted, strip_for
from minibroker.console.reading import batch_row, batches_of, transactions_of
from minibroker.console.scanning import row_of
from minibroker.console.strip import indexed_aborts
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.batch import RecordBatch
from minibroker.security.acl import Operation, ResourceType

_BATCHES: Final = 50  #: of a page
_SEGMENTS: Final = 100
_PRODUCERS: Final = 100
_BYTES_SHOWN: Final = 2_048  #: of a batch
_RECORDS_SHOWN: Final = 50


async def partition(visit: Visit) -> dict[str, Any]:
    """Show the files of a partition, its producers, and batches from the parameter `offset` on, by default the last ones."""
    topic = visit.topic("topic")
    visit.visitor.check(Operation.READ, ResourceType.TOPIC, topic.name)
    found = visit.partition(topic)
    log = _log_of(found)
    offset = visit.number("offset", max(log.log_start_offset, log.log_end_offset - 100))
    data = await visit.host.reader.read_bytes(found, min(max(offset, log.log_start_offset), log.log_end_offset))
    batches = await visit.host.reader.in_thread(_batch_rows, data)
    may_see_files = visit.may_see_cluster
    return {
        "topic": topic.name,
        "partition": found.index,
        "partition_count": len(topic.partitions),
        "may_see_files": may_see_files,
        "directory": log.directory if may_see_files else None,
        "leader_epoch": found.leader_epoch,
        "recovery_point": log.flusher.recovery_point if may_see_files else None,
        "strip": await strip_for(visit, found),
        "segments": await _segments(log) if may_see_files else [],
        "segment_count": len(log.segments) if may_see_files else None,
        "epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in log.epochs.entries[-_SEGMENTS:]],
        "producers": _producers(log),
        "producer_count": len(log.producers.producers),
        "aborted": [each._asdict() for each in indexed_aborts(log)[-_PRODUCERS:]],
        "batches": batches,
        "next_offset": batches[-1]["last_offset"] + 1 if batches and batches[-1]["last_offset"] + 1 < log.log_end_offset else None,
        "previous_offset": max(log.log_start_offset, offset - 100) if offset > log.log_start_offset else None,
        "command": f"minibroker dump-log {quoted(log.directory)} --deep-iteration" if may_see_files else "",
    }


def _log_of(found: Partition) -> PartitionLog:
    try:
        return found.log
    except KafkaError as error:
        raise NotFoundError(f"{found.topic}-{found.index} has no log: {error}") from None


def _batch_rows(data: bytes) -> list[dict[str, Any]]:
    rows = []
    for batch in batches_of(data):
        rows.append(batch_row(batch))
        if len(rows) == _BATCHES:
            break
    return rows


async def _segments(log: PartitionLog) -> list[dict[str, Any]]:
    count = len(log.segments)
    return [_segment_row(log, number) async for number in paced(range(max(0, count - _SEGMENTS), count), every=1)]


def _segment_row(log: PartitionLog, number: int) -> dict[str, Any]:
    segment = log.segments.nth(number)
    return {
        "base_offset": segment.base_offset,
        "size": segment.size,
        "is_active": segment is log.segments.active,
        "largest_timestamp_ms": segment.largest_timestamp().timestamp,
        "offset_index_entries": segment.offset_index.count,
        "time_index_entries": segment.time_index.count,
        "created_ms": segment.created_ms or None,
    }


def _producers(log: PartitionLog) -> list[dict[str, Any]]:
    return [
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp,
            "coordinator_epoch": each.coordinator_epoch,
            "transaction_start_offset": log.producers.first_open_offset(each.producer_id),
        }
        for each in log.producers.active()[:_PRODUCERS]
    ]


async def batch(visit: Visit) -> dict[str, Any]:
    """Show one batch: the fields of its header with their bytes, and its records."""
    topic = visit.topic("topic")
    visit.visitor.check(Operation.READ, ResourceType.TOPIC, topic.name)
    found, offset = visit.partition(topic), visit.number("offset")
    log = _log_of(found)
    if not log.log_start_offset <= offset < log.log_end_offset:
        raise NotFoundError(f"there is no batch at offset {offset} of {topic.name}-{found.index}")
    data = await visit.host.reader.read_bytes(found, offset, 1)
    transactions = transactions_of(log, offset, offset + 1)
    described = await visit.host.reader.in_thread(_describe, data, transactions)
    if described is None:
        raise NotFoundError(f"there is no batch at offset {offset} of {topic.name}-{found.index}")
    return described | {
        "topic": topic.name,
        "partition": found.index,
        "command": f"minibroker dump-log {quoted(log.directory)} --print-data-log" if visit.may_see_cluster else "",
    }


def _describe(data: bytes, transactions: Any) -> dict[str, Any] | None:
    """For a worker thread."""
    found: RecordBatch | None = next(batches_of(data), None)
    if found is None:
        return None
    rows, why = [], ""
    try:
        for record in decode_records(found):
            rows.append(row_of(found, record, transactions.state(found, record.offset)))
            if len(rows) == _RECORDS_SHOWN:
                break
    except KafkaError as error:
        why = str(error)
    return {"batch": batch_row(found), "lines": annotated(bytes(found.data[:_BYTES_SHOWN]), found), "rows": rows, "why": why,
            "bytes_shown": min(found.size, _BYTES_SHOWN)}  # fmt: skip


PAGES = (
    Page("/partition", "Partition", "partition.html", partition, live=("strip",), section="/topics"),
    Page("/batch", "Batch", "batch.html", batch, section="/topics"),
)
