"""Reads: whole batches from any offset, within every bound; look-ups by time and by epoch."""

from __future__ import annotations

import random

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import CorruptMessage, OffsetOutOfRange
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import AbortedTransaction, IsolationLevel, TimestampOffset
from minibroker.records.any_format import split_batches
from minibroker.records.batch import RecordBatch
from minibroker.records.compression import Compression
from minibroker.storage.transaction_index import AbortedTxn
from tests.log.conftest import OpenLog
from tests.support.log_batches import NOW_MS, batch_of, read_values

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def fill(log: PartitionLog, count: int, seed: int = 1) -> list[tuple[int, int]]:
    """Batches of one to five records; base and last offset of each."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        appended = log.append(batch_of(*(rng.randbytes(rng.randrange(200)) for _ in range(rng.randint(1, 5)))))
        made.append((appended.base_offset, appended.last_offset))
    return made


@pytest.mark.parametrize("max_bytes", [1, 61, 500, 4096, 1 << 20])
@pytest.mark.parametrize("reopened", [False, True], ids=["tail", "reopened"])
def test_every_offset_reads_from_its_batch(max_bytes: int, reopened: bool, open_log: OpenLog) -> None:
    log = open_log(segment_bytes=20_000, index_interval_bytes=700)
    made = fill(log, 150)
    if reopened:
        log.close()
        log = open_log(segment_bytes=20_000, index_interval_bytes=700, clean_shutdown=True)
    offsets = list(range(log.log_end_offset))
    random.Random(5).shuffle(offsets)
    for offset in offsets:
        data = log.read(offset, max_bytes, isolation=UNCOMMITTED)
        batches = list(split_batches(data))
        assert (batches[0].base_offset, batches[0].last_offset) == next(pair for pair in made if pair[1] >= offset)
        assert len(data) <= max_bytes or len(batches) == 1
        if len(data) < max_bytes:
            end = batches[-1].next_offset
            segment = log.segments.floor(offset)
            following = log.segments.after(segment)
            next_size = next((len(log.read(end, 1, isolation=None)) for _ in [0] if end < log.log_end_offset), 0)
            assert end in {log.log_end_offset, following and following.base_offset} or len(data) + next_size > max_bytes


def test_max_bytes_is_strict_without_min_one(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"x" * 100))
    log.append(batch_of(b"y" * 100))
    size = len(batch_of(b"x" * 100))
    for max_bytes, batch_count in [(0, 0), (60, 0), (size - 1, 0), (size, 1), (2 * size - 1, 1), (2 * size, 2)]:
        data = log.read(0, max_bytes, isolation=UNCOMMITTED, min_one=False)
        assert len(list(split_batches(data))) == batch_count


def test_read_at_the_end_is_empty_and_beyond_is_out_of_range(open_log: OpenLog) -> None:
    log = open_log()
    assert log.read(0, 100, isolation=UNCOMMITTED) == b""
    fill(log, 3)
    assert log.read(log.log_end_offset, 100, isolation=UNCOMMITTED) == b""
    for offset in (-1, log.log_end_offset + 1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, isolation=UNCOMMITTED)


@pytest.mark.parametrize("segment_bytes", [1 << 30, 400], ids=["one segment", "many"])
def test_high_watermark_limits_consumers_but_not_followers(segment_bytes: int, open_log: OpenLog) -> None:
    log = open_log(segment_bytes=segment_bytes)
    for value in (b"a", b"b", b"c"):
        log.append(batch_of(value))
    log.hold()
    log.append(batch_of(b"d", b"e"))
    log.append(batch_of(b"f" * 200))

    assert (log.last_stable_offset, log.high_watermark, log.log_end_offset) == (3, 3, 6)
    for isolation in (COMMITTED, UNCOMMITTED):
        offset, seen = 0, []
        while data := log.read(offset, 1 << 20, isolation=isolation):
            seen += list(split_batches(data))
            offset = seen[-1].next_offset
        assert offset == 3
        assert log.read(4, 100, isolation=isolation) == b""
    assert log.read(3, 1 << 20, isolation=None) != b""
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start_offset(4)

    log.release()
    assert (log.last_stable_offset, log.high_watermark) == (6, 6)
    assert len(read_values(log)) == 6


def test_damaged_batch_in_an_old_segment_is_returned_unchanged(open_log: OpenLog) -> None:
    """FAULTS 3: the client sees the CRC error."""
    log = open_log(segment_bytes=300)
    for _ in range(6):
        log.append(batch_of(b"x" * 50))
    path = next(iter(log.segments)).log.path
    with open(path, "r+b") as file:  # noqa: PTH123  a byte in the middle of a file
        file.seek(110)
        file.write(b"\xff")
    assert [batch.check_crc() for batch in split_batches(log.read(0, 1000, isolation=UNCOMMITTED))].count(False) == 1
    with open(path, "r+b") as file:  # noqa: PTH123
        file.write(bytes(61))
    with pytest.raises(CorruptMessage, match=r"00000000000000000000\.log"):
        log.read(1, 10, isolation=UNCOMMITTED)


# By time


@pytest.mark.parametrize("compression", list(Compression))
def test_offset_for_timestamp_finds_the_record_within_its_batch(compression: Compression, open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"a", b"b", b"c", timestamp=NOW_MS, compression=compression))
    log.append(batch_of(b"d", b"e", timestamp=NOW_MS + 100, compression=compression))
    for target, found in [(0, 0), (NOW_MS, 0), (NOW_MS + 1, 1), (NOW_MS + 2, 2), (NOW_MS + 3, 3), (NOW_MS + 100, 3), (NOW_MS + 101, 4)]:
        answer = log.timestamps.offset_for_timestamp(target)
        assert answer is not None
        assert answer.offset == found
        assert answer.leader_epoch == 0
    assert log.timestamps.offset_for_timestamp(NOW_MS + 102) is None


def test_offset_for_timestamp_with_unordered_timestamps(open_log: OpenLog) -> None:
    rng = random.Random(2)
    log = open_log(segment_bytes=2000, index_interval_bytes=300, message_timestamp_after_max_ms=1 << 60)
    times: list[int] = []
    for index in range(150):
        timestamp = NOW_MS + index * 50 + rng.randint(-2000, 2000)
        times += [timestamp, timestamp + 1]
        log.append(batch_of(b"x", b"y" * rng.randrange(80), timestamp=timestamp))
    for start in (0, 33, 35):
        log.advance_log_start_offset(start)
        for target in sorted({*times[::5], min(times) - 1, max(times), max(times) + 1}):
            expected = next(((time, offset, 0) for offset, time in enumerate(times) if time >= target and offset >= start), None)
            assert log.timestamps.offset_for_timestamp(target) == expected
        assert log.timestamps.max_timestamp_offset() == (max(times), times.index(max(times)), 0)
        log.close()
        log = open_log(segment_bytes=2000, index_interval_bytes=300, clean_shutdown=True, log_start_offset=start)


def test_max_timestamp_offset_is_the_first_record_with_it(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500)
    assert log.timestamps.max_timestamp_offset() is None
    for timestamp in (5, 9, 7, 9, 1, 9, 3):
        log.append(batch_of(b"x" * 100, b"y", timestamp=NOW_MS + timestamp))
    assert log.timestamps.max_timestamp_offset() == TimestampOffset(NOW_MS + 10, 3, 0)


def test_max_timestamp_is_not_of_a_deleted_record(open_log: OpenLog) -> None:
    log = open_log()
    for timestamp in (5, 9, 7, 8, 1):
        log.append(batch_of(b"x", timestamp=NOW_MS + timestamp))
    expected = [(9, 1), (9, 1), (8, 3), (8, 3), (1, 4)]
    for start, (timestamp, offset) in enumerate(expected):
        log.advance_log_start_offset(start)
        assert log.timestamps.max_timestamp_offset() == TimestampOffset(NOW_MS + timestamp, offset, 0)
    log.advance_log_start_offset(5)
    assert log.timestamps.max_timestamp_offset() is None


def test_records_without_timestamps(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"x", timestamp=-1))
    assert log.timestamps.max_timestamp_offset() is None
    assert log.timestamps.offset_for_timestamp(0) is None


# By epoch


def test_end_offset_for_epoch(open_log: OpenLog) -> None:
    log = open_log()
    assert log.end_offset_for_epoch(0) == (-1, -1)
    for epoch in (2, 5, 9):
        log.assign_leader_epoch(epoch)
        log.append(batch_of(b"a", b"b"))
    assert log.epochs.entries == [(2, 0), (5, 2), (9, 4)]
    expected = {-1: (-1, -1), 0: (0, 0), 1: (1, 0), 2: (2, 2), 4: (2, 2), 5: (5, 4), 8: (5, 4), 9: (9, 6), 10: (-1, -1)}
    assert {epoch: log.end_offset_for_epoch(epoch) for epoch in expected} == expected
    assert [log.epochs.epoch_at(offset) for offset in range(7)] == [2, 2, 5, 5, 9, 9, 9]
    log.advance_log_start_offset(3)
    assert log.epochs.entries == [(5, 3), (9, 4)]
    assert log.end_offset_for_epoch(2) == (2, 3)


def test_leader_epochs_survive_a_restart(open_log: OpenLog) -> None:
    log = open_log()
    log.assign_leader_epoch(3)
    log.append(batch_of(b"a"))
    log.assign_leader_epoch(4)
    log.close()
    log = open_log(clean_shutdown=True)
    assert (log.leader_epoch, log.epochs.entries) == (4, [(3, 0), (4, 1)])
    log.assign_leader_epoch(2)
    assert log.leader_epoch == 4


def test_aborted_transactions_by_offset(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    for _ in range(8):
        log.append(batch_of(b"x" * 80))
    for segment, entry in zip(log.segments, [AbortedTxn(1, 0, 2, 3), AbortedTxn(2, 1, 3, 4), AbortedTxn(3, 6, 7, 8)], strict=False):
        segment.transaction_index.append(entry)
    assert log.aborted_transactions(0, 0) == [AbortedTransaction(1, 0)]
    assert log.aborted_transactions(0, 7) == [AbortedTransaction(1, 0), AbortedTransaction(2, 1), AbortedTransaction(3, 6)]
    assert log.aborted_transactions(4, 5) == []


# Log start


def test_advancing_log_start_offset_deletes_whole_segments(open_log: OpenLog, clock: ManualClock, tmp_path: object) -> None:
    log = open_log(segment_bytes=200, file_delete_delay_ms=1000)
    for index in range(6):
        log.append(batch_of(b"%d" % index * 80))
    assert len(log.segments) == 6
    log.advance_log_start_offset(3)
    log.advance_log_start_offset(1)

    assert (log.log_start_offset, len(log.segments)) == (3, 3)
    assert sorted(read_values(log)) == [3, 4, 5]
    with pytest.raises(OffsetOutOfRange):
        log.read(2, 100, isolation=UNCOMMITTED)
    names = log._files.names(log.directory)
    assert sum(name.endswith(".log.deleted") for name in names) == 3
    assert not [name for name in names if name.endswith(".snapshot") and int(name[:20]) < 3]
    clock.advance(1000)
    assert not [name for name in log._files.names(log.directory) if name.endswith(".deleted")]

    log.advance_log_start_offset(6)
    assert len(log.segments) == 1
    assert log.append(batch_of(b"z")).base_offset == 6
    assert read_values(log) == {6: b"z"}


def test_log_start_offset_inside_a_segment_survives_by_the_checkpoint(open_log: OpenLog) -> None:
    log = open_log()
    fill(log, 5)
    log.advance_log_start_offset(3)
    end = log.log_end_offset
    log.close()
    assert open_log(clean_shutdown=True, log_start_offset=3).log_start_offset == 3
    beyond = open_log(clean_shutdown=True, log_start_offset=end + 10)
    assert (beyond.log_start_offset, beyond.log_end_offset) == (end + 10, end + 10)
    assert beyond.append(batch_of(b"x")).base_offset == end + 10


def test_read_returns_a_valid_view_of_the_file(open_log: OpenLog) -> None:
    log = open_log()
    log.append(batch_of(b"a"))
    data = log.read(0, 1000, isolation=UNCOMMITTED)
    assert RecordBatch(data).check_crc()
