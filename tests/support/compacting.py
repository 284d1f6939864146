"""Compaction of one log, and what is left after it, for tests."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, TypeVar

from minibroker.clock import ManualClock
from minibroker.log.compaction_round import Compacted
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, EndTransactionMarker
from minibroker.records.record import Record
from minibroker.storage.files import Files, RealFiles
from tests.support.log_batches import read_batches

COMPACT = frozenset({"compact"})
NOW_MS = ManualClock().now_ms()

T = TypeVar("T")
KeyValue = tuple[bytes | None, bytes | None]


def keyed_batch(*pairs: KeyValue, timestamp: int = NOW_MS, **options: Any) -> memoryview:
    """A batch of these keys and values; timestamps go up by a millisecond."""
    records = [Record(index, timestamp + index, key, value) for index, (key, value) in enumerate(pairs)]
    return memoryview(build_batch(records, **options))


def put(log: PartitionLog, *pairs: KeyValue, roll: bool = False, **options: Any) -> int:
    """Append a batch as a producer would, and close its segment if asked; its base offset."""
    base_offset = log.append(keyed_batch(*pairs, **options)).base_offset
    if roll:
        log._roll()
    return base_offset


def compact(
    log: PartitionLog, first_dirty_offset: int = 0, *, now_ms: int = NOW_MS, offset_map_bytes: int = 1 << 20, files: Files | None = None
) -> Compacted:
    """One round, with the plan as another process would get it; it must find something to do."""
    plan = log.compaction.plan(first_dirty_offset, now_ms, offset_map_bytes=offset_map_bytes)
    assert plan is not None
    compacted = sent(sent(plan).run(files or RealFiles()))
    assert log.compaction.swap_in(compacted)
    return compacted


def sent(value: T) -> T:
    """What another process gets of it."""
    received: T = pickle.loads(pickle.dumps(value))  # noqa: S301  our own bytes
    return received


def left_in(log: PartitionLog) -> dict[int, KeyValue]:
    """Keys and values by offset, as a consumer gets them."""
    found = {}
    for batch in read_batches(log):
        assert batch.check_crc()
        records = list(decode_records(batch))
        assert [each.offset for each in records] == sorted({each.offset for each in records})
        found.update({each.offset: (each.key, each.value) for each in records})
    return found


def offsets_in(log: PartitionLog) -> Sequence[tuple[int, int, int]]:
    """Base offset, last offset and record count of every batch."""
    return [(batch.base_offset, batch.last_offset, batch.record_count) for batch in read_batches(log)]


def transaction(log: PartitionLog, producer_id: int, ends: ControlType, *pairs: tuple[bytes, bytes | None]) -> int:
    """Records of a transaction and its marker, as a coordinator writes it; the marker's offset."""
    log.append(keyed_batch(*pairs, is_transactional=True, base_sequence=0, producer_epoch=0, producer_id=producer_id))
    return end_transaction(log, producer_id, ends)


def end_transaction(log: PartitionLog, producer_id: int, ends: ControlType, *, epoch: int = 0) -> int:
    """The marker alone, of transaction version 0; its offset."""
    marker = EndTransactionMarker(ends, 0)
    return log.end_transaction(marker, producer_id=producer_id, producer_epoch=epoch, transaction_version=0).base_offset
