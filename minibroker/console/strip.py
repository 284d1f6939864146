"""The offsets of a partition from its log start to its end: what is committed, aborted, open, hidden, and where markers are.

The end of the log is read batch by batch. Before that, only aborted transactions are known, from the index of the log.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.console.reading import LogReader, Transactions, batches_of, transactions_of
from minibroker.console.scanning import CHUNK_BYTES
from minibroker.errors import CorruptLogError
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.transaction_index import AbortedTxn

_RANGES_MAX: Final = 300  #: of one strip
_STRIPS_KEPT: Final = 200
_SEGMENTS_MAX: Final = 20  #: whose indexes are read
_TAIL_OFFSETS: Final = 5_000  #: of the log's end, whose batches are read


class Strips:
    """The strips of the partitions that were looked at last: a page looks every second, and most logs have not changed."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._kept: OrderedDict[PartitionLog, tuple[tuple[int, ...], dict[str, Any]]] = OrderedDict()

    async def of(self, partition: Partition) -> dict[str, Any]:
        """Return the offsets of a partition as JSON."""
        log = partition.online_log
        if log is None:
            return await _strip_of(self._reader, partition)
        state = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset, len(log.segments))
        kept = self._kept.get(log)
        if kept is None or kept[0] != state:
            kept = self._kept[log] = (state, await _strip_of(self._reader, partition))
            if len(self._kept) > _STRIPS_KEPT:
                self._kept.popitem(last=False)
        return kept[1]


async def _strip_of(reader: LogReader, partition: Partition) -> dict[str, Any]:
    log = partition.online_log
    if log is None:
        if not partition.is_unopened:
            return {"partition": partition.index, "is_online": False, "why": str(partition.offline_cause)}
        return {"partition": partition.index, "is_online": True, **_offsets_of_nothing(), "ranges": [], "markers": [], "segments": [0]}
    start, end = log.log_start_offset, log.log_end_offset
    first = max(start, end - _TAIL_OFFSETS)
    data = b"" if first >= end else await reader.read_bytes(partition, first, CHUNK_BYTES)
    transactions = transactions_of(log, first, end)
    ranges, markers = await asyncio.to_thread(_ranges_of, data, transactions)
    known = {(each["first"], each["kind"]) for each in ranges}
    for each in indexed_aborts(log):
        if each.first_offset < first and (each.first_offset, "aborted") not in known:
            ranges.append({"kind": "aborted", "first": max(each.first_offset, start), "last": each.last_offset - 1})
            markers.append(each.last_offset)
    return {
        "partition": partition.index,
        "is_online": True,
        **_offsets_of(log),
        "ranges": sorted(ranges, key=lambda each: each["first"])[-_RANGES_MAX:],
        "markers": sorted(set(markers))[-_RANGES_MAX:],
        "segments": [each.base_offset for each in log.segments][-_RANGES_MAX:],
    }


def indexed_aborts(log: PartitionLog) -> list[AbortedTxn]:
    """Return the last aborted transactions in the indexes of a log. It does not search the log for lost ones."""
    found: list[AbortedTxn] = []
    for number in range(len(log.segments) - 1, max(len(log.segments) - 1 - _SEGMENTS_MAX, -1), -1):
        try:
            found = [*log.segments.nth(number).transaction_index.entries[-_RANGES_MAX:], *found]
        except (CorruptLogError, OSError):
            continue  # the next reader rebuilds it
        if len(found) >= _RANGES_MAX:
            break
    return found[-_RANGES_MAX:]


def _offsets_of_nothing() -> dict[str, int]:
    names = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", "size")
    return dict.fromkeys(names, 0)


def _offsets_of(log: PartitionLog) -> dict[str, int]:
    return {
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "size": log.segments.size,
    }


def _ranges_of(data: bytes, transactions: Transactions) -> tuple[list[dict[str, Any]], list[int]]:
    """Return runs of offsets of one kind, and the offsets of markers. For a worker thread."""
    ranges: list[dict[str, Any]] = []
    markers: list[int] = []
    for batch in batches_of(data):
        if batch.magic < 2:
            continue
        if batch.is_control:
            markers.append(batch.base_offset)
            continue
        kind = transactions.state(batch, batch.base_offset) or "plain"
        if ranges and ranges[-1]["kind"] == kind and ranges[-1]["last"] == batch.base_offset - 1:
            ranges[-1]["last"] = batch.last_offset
        else:
            ranges.append({"kind": kind, "first": batch.base_offset, "last": batch.last_offset})
    return [each for each in ranges if each["kind"] != "plain"][-_RANGES_MAX:], markers[-_RANGES_MAX:]
