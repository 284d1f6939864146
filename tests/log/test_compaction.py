"""Which records, headers and markers compaction leaves, where it ends, and when its work is of no use any more."""

from __future__ import annotations

import random
from pathlib import Path
from random import Random
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import CorruptMessage
from minibroker.log.batch_filter import BYTES_A_KEY
from minibroker.log.log_config import DAY_MS, LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.any_format import decode_records
from minibroker.records.batch import CRC_POSITION, NO_TIMESTAMP, RecordBatch, TimestampType
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.control import ControlType
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from minibroker.storage.log_file_names import TRANSACTION_INDEX, file_name
from minibroker.storage.transaction_index import TransactionIndex
from tests.log.conftest import OpenLog
from tests.support.compacting import COMPACT, NOW_MS, compact, end_transaction, keyed_batch, left_in, offsets_in, put, transaction
from tests.support.log_batches import batch_of, read_batches, read_values
from tests.support.losing_files import LosingFiles, Loss

A, B, C = b"a", b"b", b"c"


@pytest.fixture
def log(open_log: OpenLog) -> PartitionLog:
    return open_log(cleanup_policy=COMPACT, delete_retention_ms=1000, file_delete_delay_ms=0)


# What stays


@pytest.mark.parametrize("codec", list(Compression))
def test_last_value_of_each_key_keeps_its_offset(log: PartitionLog, codec: Compression) -> None:
    put(log, (A, b"1"), (B, b"1"), (A, b"2"), compression=codec)
    put(log, (C, b"1"), (B, b"2"), compression=codec, roll=True)
    put(log, (B, b"active"))
    assert compact(log).next_dirty_offset == 5
    assert left_in(log) == {2: (A, b"2"), 3: (C, b"1"), 4: (B, b"2"), 5: (B, b"active")}
    first = read_batches(log)[0]
    assert (first.base_offset, first.last_offset, first.record_count, first.compression) == (0, 2, 1, codec)
    assert first.max_timestamp == NOW_MS + 2


def test_compacted_segments_lose_keys_with_later_values(log: PartitionLog) -> None:
    put(log, *((b"%d" % number, b"old") for number in range(10)), roll=True)
    first = compact(log)
    assert first.groups == ()  # nothing to take out: the segment stays as it is
    put(log, (b"3", b"new"), (b"7", b"new"), roll=True)
    compact(log, first.next_dirty_offset)
    assert [offset for offset, (key, _) in left_in(log).items() if key in {b"3", b"7"}] == [10, 11]
    assert len(left_in(log)) == 10


def test_headers_long_keys_and_timestamps_are_kept(log: PartitionLog) -> None:
    records = [Record(index, NOW_MS - 500 * index, b"k" * (40 + index % 20), b"v", (("h", b"\0"), ("n", None))) for index in range(60)]
    log.append(memoryview(build_batch(records)))
    log._roll()
    compact(log)
    (batch,) = read_batches(log)
    assert list(decode_records(batch)) == records[40:]
    assert batch.max_timestamp == records[40].timestamp


def test_records_without_key_are_removed(open_log: OpenLog, log: PartitionLog) -> None:
    log.close()
    log = open_log()  # as long as it is not compacted, it takes them
    put(log, (None, b"1"), (A, b"1"), roll=True)
    log.update_config(LogConfig(cleanup_policy=COMPACT))
    compact(log)
    assert left_in(log) == {1: (A, b"1")}


def test_log_append_time_is_kept(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=COMPACT, message_timestamp_type="LogAppendTime")
    put(log, (A, b"1"), (A, b"2"), timestamp=NOW_MS - 99, roll=True)
    put(log, (A, None), timestamp=5, roll=True)
    compact(log)
    (batch,) = read_batches(log)
    assert (batch.timestamp_type, batch.max_timestamp, batch.has_delete_horizon) == (TimestampType.LOG_APPEND_TIME, NOW_MS, True)
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS]


def test_last_batch_of_a_round_is_kept_as_an_empty_batch(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), roll=True)
    put(log, (A, None), roll=True)
    dirty = compact(log).next_dirty_offset
    put(log, (C, b"1"), roll=True)
    dirty = compact(log, dirty, now_ms=NOW_MS + 999).next_dirty_offset
    assert 2 in left_in(log)
    put(log, (C, b"2"), roll=True)
    compact(log, dirty, now_ms=NOW_MS + 1000)
    assert left_in(log) == {1: (B, b"1"), 4: (C, b"2")}
    put(log, (C, b"3"), roll=True)
    put(log, (C, None), roll=True)
    dirty = compact(log, 5, now_ms=NOW_MS).next_dirty_offset
    put(log, (B, None), roll=True)
    compact(log, dirty, now_ms=NOW_MS + 5000)
    assert offsets_in(log)[-1] == (7, 7, 1)


# Tombstones


def test_tombstone_is_kept_until_its_delete_horizon(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), roll=True)
    put(log, (A, None), (C, b"1"), timestamp=NOW_MS - DAY_MS, roll=True)  # its own time does not matter
    dirty = compact(log, now_ms=NOW_MS).next_dirty_offset
    assert left_in(log) == {1: (B, b"1"), 2: (A, None), 3: (C, b"1")}
    batch = read_batches(log)[1]
    assert (batch.has_delete_horizon, batch.base_timestamp, batch.max_timestamp) == (True, NOW_MS + 1000, NOW_MS - DAY_MS + 1)
    assert [record.timestamp for record in decode_records(batch)] == [NOW_MS - DAY_MS, NOW_MS - DAY_MS + 1]
    for number, now_ms in enumerate((NOW_MS + 999, NOW_MS + 1000)):
        assert 2 in left_in(log)
        put(log, (b"other", b"%d" % number), roll=True)
        dirty = compact(log, dirty, now_ms=now_ms).next_dirty_offset
        assert read_batches(log)[1].base_timestamp == NOW_MS + 1000  # set once
    assert left_in(log) == {1: (B, b"1"), 3: (C, b"1"), 5: (b"other", b"1")}


def test_restarted_compaction_keeps_delete_horizons(log: PartitionLog) -> None:
    """As after a lost checkpoint: everything is dirty again."""
    put(log, (A, b"1"), roll=True)
    put(log, (A, None), (B, b"1"), roll=True)
    compact(log, now_ms=NOW_MS)
    compact(log, now_ms=NOW_MS + 500)
    assert left_in(log) == {1: (A, None), 2: (B, b"1")}
    compact(log, now_ms=NOW_MS + 1000)
    assert left_in(log) == {2: (B, b"1")}


def test_zero_and_infinite_delete_retention(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=COMPACT, delete_retention_ms=2**63 - 1)
    put(log, (A, b"1"), (A, None), (B, b"1"), roll=True)
    compact(log)
    assert read_batches(log)[0].base_timestamp == 2**63 - 1
    assert [record.timestamp for record in decode_records(read_batches(log)[0])] == [NOW_MS + 1, NOW_MS + 2]
    compact(log, now_ms=NOW_MS + 10**12)
    assert left_in(log) == {1: (A, None), 2: (B, b"1")}


# Producers and transactions


def test_last_batch_of_a_producer_is_kept_as_an_empty_batch(log: PartitionLog, open_log: OpenLog) -> None:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2}
    put(log, (A, b"1"), (A, b"2"), **producer, base_sequence=0)
    put(log, (A, b"3"), (A, b"4"), **producer, base_sequence=2)
    put(log, (A, b"5"), roll=True)
    compact(log)
    header, last = read_batches(log)
    assert (header.base_offset, header.last_offset, header.record_count, header.base_timestamp) == (2, 3, 0, NO_TIMESTAMP)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 2, 2, 3)
    assert (header.compression, header.max_timestamp, header.check_crc()) == (Compression.NONE, NOW_MS + 1, True)
    assert last.base_offset == 4
    log.close(clean=False)
    again = open_log(cleanup_policy=COMPACT)
    assert again.append(keyed_batch((A, b"3"), (A, b"4"), **producer, base_sequence=2)).duplicate
    assert put(again, (A, b"6"), **producer, base_sequence=4) == 5


def test_aborted_records_are_removed_before_their_marker(log: PartitionLog) -> None:
    put(log, (A, b"stays"))
    marker = transaction(log, 1, ControlType.ABORT, (A, b"void"), (B, b"void"))
    put(log, (C, b"1"))
    log.producers.producers.clear()  # expired: nothing is kept for them
    log._roll()
    dirty = compact(log).next_dirty_offset
    assert offsets_in(log) == [(0, 0, 1), (marker, marker, 1), (marker + 1, marker + 1, 1)]
    assert [entry.last_offset for entry in log.segments.floor(0).transaction_index.entries] == [marker]
    assert not read_batches(log)[1].has_delete_horizon
    put(log, (C, b"2"), roll=True)
    dirty = compact(log, dirty).next_dirty_offset  # nothing of the transaction is left: the horizon is set
    assert (read_batches(log)[1].is_control, read_batches(log)[1].base_timestamp) == (True, NOW_MS + 1000)
    assert log.segments.floor(0).transaction_index.entries == []
    put(log, (C, b"3"), roll=True)
    compact(log, dirty, now_ms=NOW_MS + 1000)
    assert offsets_in(log) == [(0, 0, 1), (marker + 3, marker + 3, 1)]


def test_commit_marker_is_kept_as_long_as_its_records(log: PartitionLog) -> None:
    marker = transaction(log, 1, ControlType.COMMIT, (A, b"1"), (B, b"1"))
    put(log, (C, b"1"))
    log.producers.producers.clear()
    log._roll()
    dirty = 0
    for number, key in enumerate((A, B, C, C, C)):
        dirty = compact(log, dirty, now_ms=NOW_MS + 10_000 * number).next_dirty_offset
        assert (marker in [batch.base_offset for batch in read_batches(log)]) == (number < 4)
        put(log, (key, b"later %d" % number), roll=True)
    assert not [batch for batch in read_batches(log) if batch.is_control]


def test_transaction_with_an_uncompacted_marker_across_segments(log: PartitionLog) -> None:
    batch = keyed_batch((A, b"void"), is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    put(log, (A, b"stays"), roll=True)
    log._append_batch(RecordBatch(batch))
    log._roll()
    put(log, (B, b"1"), roll=True)
    end_transaction(log, 1, ControlType.ABORT)
    log.producers.producers.clear()
    put(log, (B, b"2"))
    compact(log)
    assert [offset for offset in left_in(log) if offset < 3] == [0, 2]
    assert log.aborted_transactions(0, 9) == [(1, 1)]


def test_commit_after_an_earlier_abort_of_the_producer_is_kept(log: PartitionLog) -> None:
    """The abort's marker is still there, with its entry in `.txnindex`, but lies before what the second round maps."""
    put(log, (A, b"old"))
    transaction(log, 1, ControlType.ABORT, (A, b"void"))
    log._roll()
    dirty = compact(log).next_dirty_offset
    assert log.segments.floor(0).transaction_index.entries
    put(log, (A, b"new"), (B, b"1"), is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=1)
    end_transaction(log, 1, ControlType.COMMIT)
    log._roll()
    compact(log, dirty)
    markers = {batch.base_offset for batch in read_batches(log) if batch.is_control}
    assert {offset: pair for offset, pair in left_in(log).items() if offset not in markers} == {3: (A, b"new"), 4: (B, b"1")}


def test_marker_is_kept_as_the_only_batch_of_its_producer(log: PartitionLog) -> None:
    transaction(log, 1, ControlType.ABORT, (A, b"void"))
    producer = log.producers.producers[1]
    producer.batches.clear()  # as after a marker with a new epoch
    put(log, (B, b"1"), roll=True)
    dirty = 0
    for number in range(4):
        dirty = compact(log, dirty, now_ms=NOW_MS + 10_000 * number).next_dirty_offset
        put(log, (B, b"%d" % number), roll=True)
    assert (1, 1) in [offsets[:2] for offsets in offsets_in(log)]


# How far, how much


def test_cleanable_range_and_ratio(log: PartitionLog, clock: ManualClock) -> None:
    for number in range(3):
        put(log, (A, b"x" * 100), timestamp=NOW_MS + number * 1000, roll=True)
    put(log, (A, b"active"))
    size = log.segments.floor(0).size
    found = log.compaction.cleanable(0, NOW_MS)
    assert found == (0, 3 * size, 3, False)
    assert found.ratio == 1.0
    assert log.compaction.cleanable(1, NOW_MS) == (size, 2 * size, 3, False)
    assert round(log.compaction.cleanable(1, NOW_MS).ratio, 3) == 0.667
    assert log.compaction.cleanable(3, NOW_MS).dirty_bytes == 0
    assert log.compaction.plan(3, NOW_MS, offset_map_bytes=1000) is None
    log.last_stable_offset = 2
    assert log.compaction.cleanable(0, NOW_MS).first_uncleanable_offset == 2
    log.update_config(log.config._replace(min_compaction_lag_ms=500, max_compaction_lag_ms=5000))
    assert log.compaction.cleanable(0, NOW_MS + 1000) == (0, size, 1, False)
    assert log.compaction.cleanable(0, NOW_MS + 5000).must_clean is False
    assert log.compaction.cleanable(0, NOW_MS + 5001).must_clean is True
    assert log.compaction.cleanable(1, NOW_MS + 5001).must_clean is False
    assert log.compaction.cleanable(0, NOW_MS - 10_000) == (0, 0, 0, False)
    assert log.compaction.cleanable(0, NOW_MS - 10_000).ratio == 0.0


def test_records_without_timestamp_are_as_old_as_their_file(open_log: OpenLog, tmp_path: Path) -> None:
    log = open_log(cleanup_policy=COMPACT, min_compaction_lag_ms=1000)
    put(log, (A, b"1"), timestamp=NO_TIMESTAMP, roll=True)
    path = tmp_path / "orders-0" / file_name(0, ".log")
    RealFiles().set_modified_ms(str(path), NOW_MS)
    assert log.compaction.cleanable(0, NOW_MS + 999).dirty_bytes == 0
    assert log.compaction.cleanable(0, NOW_MS + 1000).dirty_bytes > 0


def test_full_offset_map_ends_the_round_early(log: PartitionLog) -> None:
    rng = random.Random(1)
    expected = {}
    for number in range(40):
        pairs = [(b"%d" % rng.randrange(50), b"%d" % number) for _ in range(5)]
        base_offset = put(log, *pairs, roll=number % 10 == 9)
        expected.update({key: base_offset + index for index, (key, _) in enumerate(pairs)})
    dirty, rounds = 0, 0
    while dirty < log.segments.active.base_offset:
        compacted = compact(log, dirty, offset_map_bytes=20 * BYTES_A_KEY)
        assert compacted.key_count <= 20
        assert compacted.next_dirty_offset > dirty
        dirty, rounds = compacted.next_dirty_offset, rounds + 1
    assert rounds > 2
    assert {key: offset for offset, (key, _) in left_in(log).items()} == expected
    assert len(left_in(log)) == len(expected)


def test_small_segments_are_merged(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=COMPACT, segment_bytes=1000, file_delete_delay_ms=0, index_interval_bytes=1)
    for number in range(40):
        put(log, (b"%d" % number, b"x" * 150), (b"same", b"x"))
    before = len(log.segments)
    assert before >= 8
    dirty = compact(log).next_dirty_offset
    assert len(log.segments) == before  # two of the old ones are more than segment.bytes
    log.update_config(log.config._replace(segment_bytes=4000))
    put(log, (b"more", b"x"), roll=True)
    compact(log, dirty)
    assert len(log.segments) < before / 2
    assert max(segment.size for segment in log.segments) <= 4000
    for offset in left_in(log):
        found = log.segments.floor(offset).find(offset)
        assert found is not None
        assert found.base_offset <= offset <= found.last_offset
    assert sorted(path.name for path in Path(log.directory).glob("*.log")) == [file_name(s.base_offset, ".log") for s in log.segments]


def test_merged_index_stays_within_its_limit(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=COMPACT, index_interval_bytes=1, segment_index_bytes=10 * 12, file_delete_delay_ms=0)
    for number in range(60):
        put(log, (b"%d" % number, b"x"), (b"same", b"x"), timestamp=NOW_MS + number * 10)
    log._roll()
    compact(log)
    assert max(segment.time_index.count for segment in log.segments) <= 10
    assert len(left_in(log)) == 61


def test_compacted_segment_keeps_the_time_of_its_last_source(log: PartitionLog) -> None:
    for number in range(3):
        put(log, (A, b"%d" % number), roll=True)
        RealFiles().set_modified_ms(log.segments.floor(number).log.path, NOW_MS + number * 1000)
    compact(log)
    assert len(log.segments) == 2
    assert log.segments.floor(0).modified_ms == NOW_MS + 2000


def test_batch_larger_than_a_read_chunk(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy=COMPACT, max_message_bytes=1 << 24)
    put(log, (A, b"x"), (B, b"y" * 3_000_000), (A, b"z" * 2_500_000))
    put(log, (B, b"new"), roll=True)
    compact(log)
    assert {offset: len(value or b"") for offset, (_, value) in left_in(log).items()} == {2: 2_500_000, 3: 3}


def test_reads_recovery_and_restart_after_compaction(log: PartitionLog, open_log: OpenLog) -> None:
    """Reads from offsets that are gone, look-ups by time, recovery, and another start."""
    for number in range(30):
        put(log, (b"%d" % (number % 3), b"%d" % number), timestamp=NOW_MS + number, roll=number % 10 == 9)
    compact(log)
    expected = left_in(log)
    assert list(expected) == [27, 28, 29]
    assert log.timestamps.offset_for_timestamp(NOW_MS + 5) == (NOW_MS + 27, 27, 0)
    assert log.timestamps.offset_for_timestamp(NOW_MS + 28) == (NOW_MS + 28, 28, 0)
    assert log.timestamps.max_timestamp_offset() == (NOW_MS + 29, 29, 0)
    for offset in range(27):
        assert [batch.base_offset for batch in read_batches(log, offset)] == [27, 28, 29]
    for clean in (True, False):
        log.close(clean=clean)
        log = open_log(cleanup_policy=COMPACT, clean_shutdown=clean)
        assert (left_in(log), log.log_end_offset, log.log_start_offset) == (expected, 30, 0)


# When it comes to nothing


def test_compaction_does_not_repair_a_wrong_crc(log: PartitionLog) -> None:
    put(log, (A, b"1"), (B, b"1"), roll=True)
    put(log, (A, b"2"), roll=True)
    path = Path(log.segments.floor(0).log.path)
    damaged = bytearray(path.read_bytes())
    damaged[CRC_POSITION] ^= 1
    path.write_bytes(damaged)
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=1000)
    assert plan is not None
    with pytest.raises(CorruptMessage, match=r"00000000000000000000\.log, position 0: the CRC is wrong"):
        plan.run(RealFiles())
    plan.discard(RealFiles())
    assert not list(path.parent.glob("*.cleaned"))
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("base_offset", [0, 1, 3, 7])
def test_impossible_offset_stops_compaction(log: PartitionLog, base_offset: int) -> None:
    """No CRC is over the base offset: what is taken for a later record would cost an earlier one."""
    put(log, (A, b"1"), (B, b"1"))
    put(log, (A, b"2"), (B, b"2"), roll=True)
    put(log, (A, b"3"))
    path = Path(log.segments.floor(0).log.path)
    data = path.read_bytes()
    second = len(data) // 2
    path.write_bytes(data[:second] + base_offset.to_bytes(8, "big") + data[second + 8 :])
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=1000)
    assert plan is not None
    with pytest.raises(CorruptMessage, match=rf"position {second}: offsets {base_offset} to {base_offset + 1} cannot be here"):
        plan.run(RealFiles())


def test_retention_deletes_segments_during_compaction(open_log: OpenLog) -> None:
    """Retention is quicker: what is left of a group is replaced all the same, what is gone stays gone."""
    log = open_log(cleanup_policy=COMPACT | {"delete"}, file_delete_delay_ms=0)
    for number in range(6):
        put(log, (b"%d" % number, b"1"), (A, b"%d" % number), roll=True)
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=10_000)
    assert plan is not None
    compacted = plan.run(RealFiles())
    log.advance_log_start_offset(4)
    assert log.segments.floor(0).base_offset == 4
    assert log.compaction.swap_in(compacted)
    assert len(log.segments) == 2
    assert {offset: value for offset, value in left_in(log).items() if offset >= 4} == {
        4: (b"2", b"1"),
        6: (b"3", b"1"),
        8: (b"4", b"1"),
        10: (b"5", b"1"),
        11: (A, b"5"),
    }
    assert log.log_start_offset == 4


def test_all_segments_deleted_during_compaction(log: PartitionLog) -> None:
    put(log, (A, b"1"), (A, b"2"), roll=True)
    put(log, (B, b"1"))
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=10_000)
    assert plan is not None
    compacted = plan.run(RealFiles())
    log.advance_log_start_offset(2)
    assert log.compaction.swap_in(compacted)
    assert not list(Path(log.directory).glob("*.cleaned"))
    assert left_in(log) == {2: (B, b"1")}
    late = plan.run(RealFiles())  # and when it begins only now
    assert late.groups is None
    assert not log.compaction.swap_in(late)
    assert not list(Path(log.directory).glob("*.cleaned"))


def test_log_deleted_during_compaction(log: PartitionLog) -> None:
    put(log, (A, b"1"), (A, b"2"), roll=True)
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=10_000)
    assert plan is not None
    compacted = plan.run(RealFiles())
    log.delete()
    assert not log.compaction.swap_in(compacted)
    assert plan.run(RealFiles()).groups is None
    plan.discard(RealFiles())


def test_log_accepts_appends_during_compaction(log: PartitionLog) -> None:
    put(log, (A, b"1"), (A, b"2"), roll=True)
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=10_000)
    assert plan is not None
    put(log, (A, b"3"), roll=True)
    put(log, (A, b"4"))
    assert log.compaction.swap_in(plan.run(RealFiles()))
    assert left_in(log) == {1: (A, b"2"), 2: (A, b"3"), 3: (A, b"4")}
    compact(log, 2)
    assert left_in(log) == {2: (A, b"3"), 3: (A, b"4")}


def test_missing_transaction_index_after_compaction_means_no_aborts(log: PartitionLog) -> None:
    transaction(log, 5, ControlType.COMMIT, (A, b"1"))
    put(log, (A, b"2"), roll=True)
    assert not log.may_have_aborted(0)
    compact(log)
    assert not log.may_have_aborted(0)


def test_transaction_index_is_compacted(log: PartitionLog) -> None:
    put(log, (A, b"1"), roll=True)
    marker = transaction(log, 5, ControlType.ABORT, (B, b"void"))
    put(log, (A, b"2"), roll=True)
    compact(log)
    path = f"{log.directory}/{file_name(0, TRANSACTION_INDEX)}"
    assert [entry.last_offset for entry in TransactionIndex(RealFiles(), path).entries] == [marker]
    assert log.aborted_transactions(0, 9) == [(5, 1)]
    assert not list(Path(log.directory).glob("*.swap"))


def test_invalid_batch_is_reported_with_its_position(log: PartitionLog) -> None:
    log.append(batch_of(b"x"))
    log._roll()
    path = Path(log.segments.floor(0).log.path)
    data = path.read_bytes()
    for damaged in (data[:20], data[:16] + b"\x07" + data[17:], data[:-1], data + b"abc"):
        path.write_bytes(damaged)
        log.segments.floor(0).size = len(damaged)
        plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=1000)
        assert plan is not None
        with pytest.raises(CorruptMessage, match=r"00000000000000000000\.log, position \d+"):
            plan.run(RealFiles())


def test_replacing_value_is_flushed_before_the_old_one_is_removed(open_log: OpenLog, tmp_path: Path) -> None:
    """The segment of the later value stays as it is, and nobody has flushed it: a power loss would leave neither."""
    files = LosingFiles(tmp_path)
    log = open_log(files=files, cleanup_policy=COMPACT, segment_bytes=250, file_delete_delay_ms=0)
    log.append(batch_of(b"early" * 30))
    log.flusher.flush()
    log.append(batch_of(b"later" * 30))
    log._roll()
    files.sync_directory(log.directory)
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=10_000)
    assert plan is not None
    assert log.compaction.swap_in(plan.run(files))

    files.lose_power(tmp_path / "after", Random(1), Loss.STRICT)
    again = PartitionLog.open(
        tmp_path / "after" / "orders-0",
        config=LogConfig(cleanup_policy=COMPACT),
        files=RealFiles(),
        clock=ManualClock(),
        recovery_point=1,
        was_compacted=True,
    )
    assert read_values(again) == {1: b"later" * 30}
