"""Transactions where a log shrinks, rolls, expires its producers, or its disk fails."""

from __future__ import annotations

import errno

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import KafkaStorageError, OffsetOutOfRange
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.control import ControlType
from tests.log.conftest import OpenLog
from tests.support.compacting import end_transaction
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch

DAY_MS = 24 * 60 * 60 * 1000


def write(log: PartitionLog, producer_id: int, sequence: int = 0, **options: int) -> int:
    return log.append(idempotent_batch(producer_id, sequence, b"x" * 80, is_transactional=True, **options)).base_offset


def entries_of(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(entry) for segment in log.segments for entry in segment.transaction_index.entries]


# Less log


def test_retention_deletes_the_start_of_an_open_transaction(open_log: OpenLog, clock: ManualClock) -> None:
    """As in Kafka: it goes by the high watermark. What is left of the transaction is still one."""
    log = open_log(segment_bytes=200, retention_ms=1000)
    for sequence in range(3):
        write(log, 1, sequence, timestamp=NOW_MS - 5000 + 2000 * sequence)
    assert (len(log.segments), log.last_stable_offset) == (3, 0)
    assert log.retention.enforce(clock.now_ms()) == 2
    assert (log.log_start_offset, log.last_stable_offset, log.first_unstable_offset) == (2, 2, 2)
    assert log.read(2, 1000, isolation=IsolationLevel.READ_COMMITTED) == b""
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000, isolation=IsolationLevel.READ_COMMITTED)
    assert log.producers.first_open_offset(1) == 0
    log.close()
    log = open_log(segment_bytes=200, clean_shutdown=True, recovery_point=3, log_start_offset=2)
    assert (log.producers.first_open_offset(1), log.last_stable_offset) == (0, 2)
    end_transaction(log, 1, ControlType.ABORT)
    assert (log.last_stable_offset, log.aborted_transactions(2, 2)) == (4, [(1, 0)])


def test_all_records_of_an_open_transaction_are_deleted(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    write(log, 1)
    log.append(batch_of(b"x" * 80))
    log.advance_log_start_offset(2)
    assert (log.last_stable_offset, log.first_unstable_offset, log.producers.first_open_offset(1)) == (2, 2, 0)
    log.append(batch_of(b"more"))
    assert (log.last_stable_offset, log.high_watermark) == (2, 3)
    log.close(clean=False)
    log = open_log(segment_bytes=200, log_start_offset=2)
    end_transaction(log, 1, ControlType.COMMIT)
    assert log.last_stable_offset == log.log_end_offset == 4


def test_open_transaction_is_not_compacted(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200, cleanup_policy=frozenset({"compact"}))
    for _ in range(2):
        log.append(batch_of(b"x" * 80))
    write(log, 1)
    for _ in range(3):
        log.append(batch_of(b"x" * 80))
    found = log.compaction.cleanable(0, NOW_MS)
    assert found.first_uncleanable_offset == log.last_stable_offset == 2
    end_transaction(log, 1, ControlType.ABORT)
    assert log.compaction.cleanable(0, NOW_MS).first_uncleanable_offset == log.segments.active.base_offset > 2


# Segments


def test_aborted_entries_are_in_the_segment_of_their_marker(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    write(log, 1)
    write(log, 2)
    for producer_id in (2, 1):
        log._roll()
        end_transaction(log, producer_id, ControlType.ABORT)
    assert [len(segment.transaction_index.entries) for segment in log.segments] == [0, 0, 1, 1]
    assert log.aborted_transactions(0, 0) == [(1, 0)]
    assert log.aborted_transactions(1, 1) == [(2, 1), (1, 0)]
    assert log.aborted_transactions(3, 3) == [(1, 0)]
    assert log.may_have_aborted(3)
    assert not log.may_have_aborted(4)


# Producers that are forgotten


def test_producer_with_an_open_transaction_does_not_expire(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log()
    write(log, 1)
    write(log, 2)
    end_transaction(log, 2, ControlType.COMMIT)
    log.remove_expired_producers(DAY_MS)
    clock.advance(DAY_MS)
    log.remove_expired_producers(DAY_MS)
    assert [each.producer_id for each in log.producers.active()] == [1]
    log.close()
    clock.advance(DAY_MS)
    log = open_log(clean_shutdown=True, recovery_point=3)
    assert (log.producers.first_open_offset(1), log.last_stable_offset) == (0, 0)
    assert [each.producer_id for each in log.producers.active()] == [1]


# Disks


@pytest.mark.parametrize("torn_at", [None, 0, 30])
def test_failed_marker_write_does_not_end_the_transaction(torn_at: int | None, open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    write(log, 1)
    files.fail("write", errno.ENOSPC, torn_at=torn_at, path_part=".log")
    with pytest.raises(KafkaStorageError):
        end_transaction(log, 1, ControlType.ABORT)
    assert (log.log_end_offset, log.producers.first_open_offset(1), log.last_stable_offset) == (1, 0, 0)
    assert end_transaction(log, 1, ControlType.ABORT) == 1
    assert (log.last_stable_offset, entries_of(log)) == (2, [(1, 0, 1, 2)])


@pytest.mark.parametrize("torn_at", [None, 0, 7])
def test_marker_without_its_index_entry_takes_the_log_offline(torn_at: int | None, open_log: OpenLog) -> None:
    """Whoever read on would get aborted records; the next start makes the entry."""
    files = FaultyFiles()
    log = open_log(files=files)
    told: list[int | None] = []
    log.failures.on_storage_error = lambda _, error: told.append(error.errno)
    write(log, 1)
    files.fail("write", errno.EIO, torn_at=torn_at, path_part=".txnindex")
    with pytest.raises(KafkaStorageError):
        end_transaction(log, 1, ControlType.ABORT)
    assert told == [errno.EIO]
    with pytest.raises(KafkaStorageError):
        log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED)
    log.close(clean=False)
    log = open_log()
    assert (log.log_end_offset, log.last_stable_offset, entries_of(log)) == (2, 2, [(1, 0, 1, 2)])


def test_unreadable_transaction_index_is_a_storage_error(open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    write(log, 1)
    end_transaction(log, 1, ControlType.ABORT)
    log.close()
    log = open_log(files=files, clean_shutdown=True, recovery_point=2)
    files.fail("open", errno.EIO, path_part=".txnindex")
    with pytest.raises(KafkaStorageError):
        log.aborted_transactions(0, 1)
    assert log.aborted_transactions(0, 1) == [(1, 0)]
