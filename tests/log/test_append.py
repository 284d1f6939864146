"""Appends: offsets, epochs, rolling, refusals; producers' sequences (FAULTS 12, 13)."""

from __future__ import annotations

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    KafkaError,
    MessageTooLarge,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from minibroker.records.batch import INT32_MAX, RecordBatch, TimestampType
from tests.log.conftest import OpenLog
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch, read_batches, read_values


def test_append_returns_offsets_and_sets_the_leader_epoch(open_log: OpenLog) -> None:
    log = open_log()
    log.assign_leader_epoch(7)

    first = log.append(batch_of(b"a", b"b"))
    second = log.append(batch_of(b"c"))

    assert (first.base_offset, first.last_offset, first.log_append_time_ms, first.duplicate) == (0, 1, -1, False)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert read_values(log) == {0: b"a", 1: b"b", 2: b"c"}
    assert {batch.partition_leader_epoch for batch in read_batches(log)} == {7}
    assert (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset) == (0, 3, 3, 3)


def test_log_append_time_comes_from_the_broker_clock(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    clock.advance(5000)
    assert log.append(batch_of(b"a", timestamp=1)).log_append_time_ms == NOW_MS + 5000
    (batch,) = read_batches(log)
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS + 5000)
    assert batch.check_crc()


def _without_crc(data: memoryview) -> memoryview:
    data[-1] ^= 1
    return data


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (lambda: _without_crc(batch_of(b"a")), "CORRUPT_MESSAGE"),
        (lambda: batch_of(b"a", is_control=True), "INVALID_RECORD"),
        (lambda: batch_of(b"a", last_offset_delta=5), "INVALID_RECORD"),
        (lambda: batch_of(b"a", timestamp=NOW_MS + 2 * 3_600_000), "INVALID_TIMESTAMP"),
        (lambda: batch_of(b"a" * 2000), "MESSAGE_TOO_LARGE"),
    ],
    ids=["crc", "control", "offset delta", "timestamp", "too large"],
)
def test_refused_batch_does_not_change_the_log(data: object, error: str, open_log: OpenLog) -> None:
    log = open_log(max_message_bytes=1000)
    log.append(batch_of(b"before"))
    with pytest.raises(KafkaError) as raised:
        log.append(data())  # type: ignore[operator]  # one of the lambdas above
    assert raised.value.name == error
    assert log.append(batch_of(b"after")).base_offset == 1
    assert read_values(log) == {0: b"before", 1: b"after"}


def test_rejection_reasons_are_error_class_names() -> None:
    assert (InvalidRecord.name, MessageTooLarge.name) == ("INVALID_RECORD", "MESSAGE_TOO_LARGE")


def test_rolls_by_size(open_log: OpenLog) -> None:
    size = len(batch_of(b"x"))
    log = open_log(segment_bytes=3 * size)
    for _ in range(7):
        log.append(batch_of(b"x"))
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]
    assert log.segments.size == 7 * size
    with pytest.raises(RecordListTooLarge):
        log.append(batch_of(b"x" * 500))
    assert len(read_values(log)) == 7


def test_rolls_by_the_timestamps_of_records(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000)
    for timestamp in (NOW_MS, NOW_MS + 999, NOW_MS - 5000, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1002):
        log.append(batch_of(b"x", timestamp=timestamp))
    assert [segment.base_offset for segment in log.segments] == [0, 4]


def test_rolls_by_the_clock_when_records_have_no_timestamp(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_ms=1000)
    log.append(batch_of(b"x", timestamp=-1))
    log.append(batch_of(b"x", timestamp=-1))
    clock.advance(1001)
    log.append(batch_of(b"x", timestamp=-1))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_rolls_earlier_never_later(open_log: OpenLog) -> None:
    log = open_log(segment_ms=1000, segment_jitter_ms=1_000_000)
    assert 0 <= log.segments.active.roll_jitter_ms <= 1000


@pytest.mark.parametrize(("index_bytes", "entries"), [(24, 1), (40, 2)], ids=["time index is full first", "offset index"])
def test_rolls_when_an_index_is_full(index_bytes: int, entries: int, open_log: OpenLog) -> None:
    log = open_log(segment_index_bytes=index_bytes, index_interval_bytes=0)
    for index in range(10):
        log.append(batch_of(b"x", timestamp=NOW_MS + index))
    first = next(iter(log.segments))
    assert first.offset_index.count == entries
    assert len(log.segments) > 2
    assert len(read_values(log)) == 10


def test_rolls_before_relative_offsets_overflow(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(3):
        data = batch_of(b"x", last_offset_delta=INT32_MAX // 2)
        log._append_batch(RecordBatch(data))
    assert [segment.base_offset for segment in log.segments] == [0, INT32_MAX // 2 * 2 + 2]


@pytest.mark.parametrize("recovered", [False, True])
def test_index_entry_is_added_after_each_interval(recovered: bool, open_log: OpenLog) -> None:
    size = len(batch_of(b"x"))
    log = open_log(index_interval_bytes=2 * size)
    for index in range(8):
        log.append(batch_of(b"x", timestamp=NOW_MS + index // 3))
    if recovered:
        log._release("killed")
        log = open_log(index_interval_bytes=2 * size)
    segment = log.segments.active
    assert segment.offset_index.entries() == [(3, 3 * size), (6, 6 * size)]
    assert segment.largest_timestamp() == (NOW_MS + 2, 6)
    log.close()
    assert segment.time_index.entries() == [(NOW_MS + 1, 3), (NOW_MS + 2, 6)]


def test_entries_are_not_far_apart(open_log: OpenLog) -> None:
    """A look-up walks over all headers up to the next entry, and a client may set the interval."""
    log = open_log(index_interval_bytes=INT32_MAX)
    value = b"x" * 100_000
    for _ in range(8):
        log.append(batch_of(value))
    assert [offset for offset, _ in log.segments.active.offset_index.entries()] == [3, 6]


def test_first_of_equal_timestamps_is_the_largest(open_log: OpenLog) -> None:
    log = open_log()
    for _ in range(3):
        log.append(batch_of(b"x"))
    assert log.segments.active.largest_timestamp() == (NOW_MS, 0)


def test_indexes_of_idle_segments_are_unloaded(open_log: OpenLog) -> None:
    from minibroker.storage.files import RealFiles

    log = open_log(files=RealFiles(max_open_files=2), segment_bytes=300, index_interval_bytes=0)
    for _ in range(20):
        log.append(batch_of(b"x"))
    for offset in range(20):
        read_values(log, offset)
    *closed, active = log.segments
    assert sum(segment.offset_index.in_memory for segment in closed) <= 2
    assert active.offset_index.in_memory


# Producers


def test_duplicate_returns_its_offset_without_appending(open_log: OpenLog) -> None:
    log = open_log()
    sent = [log.append(idempotent_batch(5, sequence)) for sequence in range(7)]
    for sequence in range(2, 7):
        again = log.append(idempotent_batch(5, sequence))
        assert again == sent[sequence]._replace(duplicate=True)
    assert log.log_end_offset == 7
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(5, 1))


@pytest.mark.parametrize("sequence", [0, 1, 3, 4, 100, INT32_MAX])
def test_sequence_gap_or_overlap_is_out_of_order(sequence: int, open_log: OpenLog) -> None:
    log = open_log()
    log.append(idempotent_batch(5, 0, b"a", b"b"))
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(5, sequence))
    assert log.append(idempotent_batch(5, 2)).base_offset == 2


def test_unknown_producer_may_start_at_any_sequence(open_log: OpenLog) -> None:
    """As in Kafka since KIP-360: what it wrote before may have been deleted."""
    log = open_log()
    assert log.append(idempotent_batch(5, 41)).base_offset == 0
    assert log.append(idempotent_batch(5, 42)).base_offset == 1


def test_old_producer_epoch_is_refused_and_a_new_one_starts_at_zero(open_log: OpenLog) -> None:
    log = open_log()
    log.append(idempotent_batch(5, 0, epoch=3))
    with pytest.raises(InvalidProducerEpoch):
        log.append(idempotent_batch(5, 1, epoch=2))
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(5, 1, epoch=4))
    log.append(idempotent_batch(5, 0, epoch=4))
    with pytest.raises(InvalidProducerEpoch):
        log.append(idempotent_batch(5, 0, epoch=3))
    assert log.log_end_offset == 2


def test_sequences_wrap(open_log: OpenLog) -> None:
    log = open_log()
    log.append(idempotent_batch(5, INT32_MAX - 1, b"a", b"b", b"c"))
    log.append(idempotent_batch(5, 1))
    log.append(idempotent_batch(6, INT32_MAX))
    log.append(idempotent_batch(6, 0))
    assert log.append(idempotent_batch(5, INT32_MAX - 1, b"a", b"b", b"c")).duplicate
    assert log.append(idempotent_batch(6, INT32_MAX)).duplicate


def test_producers_expire(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log()
    log.append(idempotent_batch(5, 0))
    log.remove_expired_producers(1000)
    with pytest.raises(OutOfOrderSequenceNumber):
        log.append(idempotent_batch(5, 9))
    clock.advance(1000)
    log.remove_expired_producers(1000)
    log.append(idempotent_batch(5, 9))
