"""Transactions in one log: the last stable offset, markers, what producers and coordinators may do (FAULTS 14)."""

from __future__ import annotations

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import InvalidProducerEpoch, InvalidRecord, InvalidTxnState, OutOfOrderSequenceNumber, TransactionCoordinatorFenced
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import decode_records, split_batches
from minibroker.records.batch import TimestampType
from minibroker.records.control import ControlType, EndTransactionMarker
from tests.log.conftest import OpenLog
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch, read_batches


def write(log: PartitionLog, producer_id: int, *values: bytes, sequence: int = 0, epoch: int = 0) -> int:
    """Records of a transaction; the first offset."""
    return log.append(idempotent_batch(producer_id, sequence, *values, epoch=epoch, is_transactional=True)).base_offset


def end(log: PartitionLog, producer_id: int, ends: ControlType, *, epoch: int = 0, coordinator: int = 0, version: int = 0) -> int:
    """A marker's offset."""
    marker = EndTransactionMarker(ends, coordinator)
    return log.end_transaction(marker, producer_id=producer_id, producer_epoch=epoch, transaction_version=version).base_offset


def abort(log: PartitionLog, producer_id: int, epoch: int = 0) -> int:
    return end(log, producer_id, ControlType.ABORT, epoch=epoch)


def commit(log: PartitionLog, producer_id: int, epoch: int = 0) -> int:
    return end(log, producer_id, ControlType.COMMIT, epoch=epoch)


def entries_of(log: PartitionLog) -> list[tuple[int, ...]]:
    """All of `.txnindex`, segment after segment."""
    return [tuple(entry) for segment in log.segments for entry in segment.transaction_index.entries]


# The last stable offset


def test_open_transaction_holds_the_last_stable_offset(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"plain"))
    write(log, 1, b"a", b"b")
    log.append(batch_of(b"plain"))

    assert (log.first_unstable_offset, log.last_stable_offset, log.high_watermark) == (1, 1, 4)
    assert [batch.last_offset for batch in split_batches(log.read(0, 1 << 20, isolation=IsolationLevel.READ_COMMITTED))] == [0]
    assert log.read(1, 1 << 20, isolation=IsolationLevel.READ_COMMITTED) == b""
    assert commit(log, 1) == 4
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 5)


def test_last_stable_offset_moves_to_the_oldest_open_transaction(open_log: OpenLog) -> None:
    log = open_log()
    for producer_id in (1, 2, 3):
        write(log, producer_id, b"a")
    assert log.producers.list_open_transactions() == [(1, 0, 0), (2, 0, 1), (3, 0, 2)]
    abort(log, 2)
    assert log.last_stable_offset == 0
    commit(log, 1)
    assert log.last_stable_offset == 2
    abort(log, 3)
    assert log.last_stable_offset == log.log_end_offset == 6
    assert entries_of(log) == [(2, 1, 3, 0), (3, 2, 5, 6)]


def test_marker_above_the_high_watermark_does_not_move_the_last_stable_offset(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a")
    log.hold()
    abort(log, 1)
    write(log, 2, b"b")
    assert (log.last_stable_offset, log.first_unstable_offset, log.high_watermark) == (0, 0, 1)
    log.release()
    assert (log.last_stable_offset, log.first_unstable_offset, log.high_watermark) == (2, 2, 3)


def test_last_stable_offset_is_not_below_the_log_start_offset(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a", b"b", b"c")
    log.advance_log_start_offset(2)
    assert (log.last_stable_offset, log.first_unstable_offset) == (2, 2)
    write(log, 1, b"d", sequence=3)
    assert (log.last_stable_offset, log.producers.first_open_offset(1)) == (2, 0)
    abort(log, 1)
    assert (log.last_stable_offset, entries_of(log)) == (5, [(1, 0, 4, 5)])


# What producers may do


def test_batch_outside_its_producers_transaction_is_refused(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a")
    with pytest.raises(InvalidTxnState):
        log.append(idempotent_batch(1, 1))
    with pytest.raises(InvalidTxnState):
        log.append(idempotent_batch(1, 0, epoch=1))
    assert log.log_end_offset == 1
    commit(log, 1)
    assert log.append(idempotent_batch(1, 1)).base_offset == 2


def test_sequences_continue_only_after_a_marker_of_the_same_epoch(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a", b"b")
    commit(log, 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 1, b"c", sequence=0)
    write(log, 1, b"c", sequence=2)
    end(log, 1, ControlType.COMMIT, epoch=1, version=2)
    with pytest.raises(InvalidProducerEpoch):
        write(log, 1, b"d", sequence=3)
    with pytest.raises(OutOfOrderSequenceNumber):
        write(log, 1, b"d", sequence=3, epoch=1)
    write(log, 1, b"d", epoch=1)


def test_duplicate_from_the_previous_transaction_opens_none(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a")
    commit(log, 1)
    assert log.append(idempotent_batch(1, 0, b"a", is_transactional=True)).duplicate
    assert log.producers.first_open_offset(1) is None


def test_unknown_producer_must_start_a_v2_transaction_at_sequence_zero(open_log: OpenLog) -> None:
    """Transaction version 2: each transaction begins with 0, so an earlier batch is missing."""
    log = open_log()
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(1, 5, is_transactional=True), produce_version=12)
    assert log.append(idempotent_batch(1, 5, is_transactional=True), produce_version=11).base_offset == 0


def test_open_transaction_is_listed_with_its_producer(open_log: OpenLog) -> None:
    log = open_log()
    write(log, 1, b"a", epoch=3)
    assert (log.producers.first_open_offset(1), log.producers.first_open_offset(2)) == (0, None)
    assert log.producers.has_open_transaction(1, 3)
    assert not log.producers.has_open_transaction(1, 2)
    assert not log.producers.has_open_transaction(2, 3)
    assert log.producers.active() == [(1, 3, 0, NOW_MS, -1, 0)]
    commit(log, 1, epoch=3)
    assert not log.producers.has_open_transaction(1, 3)
    assert log.producers.active() == [(1, 3, 0, NOW_MS, 0, -1)]


# Markers


def test_marker_is_a_control_batch(open_log: OpenLog) -> None:
    log = open_log()
    log.assign_leader_epoch(4)
    write(log, 7, b"a", epoch=2)
    appended = log.end_transaction(EndTransactionMarker(ControlType.ABORT, 9), producer_id=7, producer_epoch=3, transaction_version=2)
    assert (appended.base_offset, appended.last_offset) == (1, 1)
    _, batch = read_batches(log)
    assert batch.check_crc()
    assert (batch.is_control, batch.is_transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
        True,
        True,
        7,
        3,
        -1,
    )
    assert (batch.partition_leader_epoch, batch.max_timestamp) == (4, NOW_MS)
    assert EndTransactionMarker.from_record(next(decode_records(batch))) == (ControlType.ABORT, 9)


def test_marker_has_log_append_time_if_configured(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    clock.advance(9)
    commit(log, 1)
    (batch,) = read_batches(log)
    assert (batch.check_crc(), batch.timestamp_type, batch.max_timestamp) == (True, TimestampType.LOG_APPEND_TIME, NOW_MS + 9)


def test_marker_without_a_transaction_only_stores_its_epochs(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(2):
        abort(log, 1, epoch=5)
    assert entries_of(log) == []
    assert log.producers.active() == [(1, 5, -1, NOW_MS, 0, -1)]
    with pytest.raises(InvalidProducerEpoch):
        write(log, 1, b"zombie", epoch=4)


@pytest.mark.parametrize(("epoch", "version", "is_refused"), [(2, 0, True), (3, 0, False), (3, 1, False), (3, 2, True), (4, 2, False)])
def test_marker_of_another_epoch(epoch: int, version: int, is_refused: bool, open_log: OpenLog) -> None:
    """A delayed marker of version 2 can only be of a transaction before: each has its own epoch (KIP-1228)."""
    log = open_log()
    write(log, 1, b"a", epoch=3)
    if not is_refused:
        assert end(log, 1, ControlType.ABORT, epoch=epoch, version=version) == 1
        return
    with pytest.raises(InvalidProducerEpoch):
        end(log, 1, ControlType.ABORT, epoch=epoch, version=version)
    assert (log.producers.first_open_offset(1), log.log_end_offset) == (0, 1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_repeated_marker(version: int, open_log: OpenLog) -> None:
    """Kafka 4.3.1 writes it once more (KAFKA-19999): the coordinator does not know that it was written."""
    log = open_log()
    write(log, 1, b"a", epoch=3)
    assert [end(log, 1, ControlType.COMMIT, epoch=4, version=version) for _ in range(2)] == [1, 2]
    with pytest.raises(InvalidProducerEpoch):
        end(log, 1, ControlType.COMMIT, epoch=3, version=version)
    assert log.last_stable_offset == 3


def test_replaced_coordinator_is_fenced(open_log: OpenLog) -> None:
    log = open_log()
    end(log, 1, ControlType.COMMIT, coordinator=5)
    write(log, 1, b"a")
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, 1, ControlType.ABORT, coordinator=4)
    assert log.producers.first_open_offset(1) == 1
    end(log, 1, ControlType.ABORT, coordinator=5)


# The broker's own batches


def test_internal_batches_have_no_sequences(open_log: OpenLog) -> None:
    log = open_log()
    for offset in (0, 1):
        assert log.append_own(batch_of(b"a")).base_offset == offset
    for offset in (2, 3):
        assert log.append_own(idempotent_batch(1, 0, epoch=1, is_transactional=True)).base_offset == offset
    assert log.last_stable_offset == 2
    with pytest.raises(InvalidProducerEpoch):
        log.append_own(idempotent_batch(1, 0, epoch=0, is_transactional=True))
    with pytest.raises(InvalidTxnState):
        log.append_own(idempotent_batch(1, 0, epoch=1))
    commit(log, 1, epoch=1)
    assert [(batch.base_offset, batch.check_crc()) for batch in read_batches(log)] == [(offset, True) for offset in range(5)]


def test_several_internal_batches_in_one_append_are_refused(open_log: OpenLog) -> None:
    for timestamp_type in ("CreateTime", "LogAppendTime"):
        log = open_log(message_timestamp_type=timestamp_type)
        two = bytearray(batch_of(b"a")) + batch_of(b"b")
        before = bytes(two)
        with pytest.raises(InvalidRecord, match=rf"{len(two)} bytes for .* are not one batch"):
            log.append_own(two)
        assert (bytes(two), log.log_end_offset) == (before, 0)


def test_internal_batches_have_log_append_time_if_configured(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    appended = log.append_own(batch_of(b"a", timestamp=5))
    assert appended.log_append_time_ms == NOW_MS

    (batch,) = read_batches(log)
    assert (batch.check_crc(), batch.max_timestamp) == (True, NOW_MS)
