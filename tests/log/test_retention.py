"""Retention: which segments go, when, and what is left of them at each moment."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.errors import KafkaStorageError, OffsetOutOfRange
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.log.producer_state import WriteTimes
from minibroker.log.results import IsolationLevel
from minibroker.log.retention import SEGMENTS_A_TURN
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from tests.log.conftest import OpenLog
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import NOW_MS, batch_of, idempotent_batch, read_values

SECOND = 1000
DELETE, COMPACT, BOTH = frozenset({"delete"}), frozenset({"compact"}), frozenset({"compact", "delete"})


def fill(log: PartitionLog, *ages_ms: int) -> None:
    """A segment for each age: segments of these tests hold one batch."""
    for age_ms in ages_ms:
        log.append(batch_of(b"x" * 20, timestamp=NOW_MS - age_ms))


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def files_of(log: PartitionLog) -> set[str]:
    return {path.name for path in Path(log.directory).iterdir()}


SIZE = len(batch_of(b"x" * 20))


def test_retention_ms_deletes_whole_segments_from_the_start(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=10 * SECOND)
    fill(log, 20_000, 10_001, 10_000, 30_000, 0)
    assert bases(log) == [0, 1, 2, 3, 4]
    assert log.retention.enforce(clock.now_ms()) == 2  # 10,000 ms old is not yet over, and what lies behind it stays
    assert (bases(log), log.log_start_offset) == ([2, 3, 4], 2)
    assert read_values(log) == dict.fromkeys((2, 3, 4), b"x" * 20)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 100, isolation=IsolationLevel.READ_UNCOMMITTED)
    assert log.retention.enforce(clock.now_ms()) == 0
    assert log.retention.enforce(clock.now_ms() + 1) == 2
    assert bases(log) == [4]


def test_retention_bytes_are_kept_at_least(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_bytes=3 * SIZE, retention_ms=-1)
    fill(log, 0, 0, 0, 0, 0)
    assert log.retention.enforce(clock.now_ms()) == 2
    assert log.segments.size == 3 * SIZE
    log.update_config(log.config._replace(retention_bytes=3 * SIZE - 1))
    assert log.retention.enforce(clock.now_ms()) == 0  # without the first one there were less
    log.update_config(log.config._replace(retention_bytes=2 * SIZE))
    assert (log.retention.enforce(clock.now_ms()), bases(log)) == (1, [3, 4])
    log.update_config(log.config._replace(retention_bytes=-1))
    assert log.retention.enforce(clock.now_ms()) == 0


def test_very_small_limits_as_in_spark_tests(open_log: OpenLog, clock: ManualClock) -> None:
    """Segments of 70 bytes and 40 bytes of retention: one record a segment, and only the newest stays."""
    log = open_log(segment_bytes=70, retention_bytes=40)
    for number in range(20):
        log.append(memoryview(build_batch([Record(0, NOW_MS, None, b"%d" % (number % 10))])))
        log.retention.enforce(clock.now_ms())
        assert list(read_values(log)) == [number]
    assert len(log.segments) == 1


def test_zero_retention_bytes_empty_the_log(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_bytes=0)
    fill(log, 0, 0)
    assert log.retention.enforce(clock.now_ms()) == 2
    assert (bases(log), log.segments.size, log.log_start_offset, log.log_end_offset) == ([2], 0, 2, 2)
    assert log.retention.enforce(clock.now_ms()) == 0  # an empty one is not deleted again and again


def test_expired_active_segment_is_rolled_and_deleted(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(retention_ms=SECOND)
    fill(log, 0, 0, 0)
    clock.advance(SECOND)
    assert log.retention.enforce(clock.now_ms()) == 0
    clock.advance(1)
    assert log.retention.enforce(clock.now_ms()) == 1
    assert (bases(log), log.log_start_offset, log.high_watermark) == ([3], 3, 3)
    assert log.read(3, 100, isolation=IsolationLevel.READ_UNCOMMITTED) == b""
    assert log.append(batch_of(b"next", timestamp=clock.now_ms())).base_offset == 3
    assert read_values(log) == {3: b"next"}


@pytest.mark.parametrize("is_clean", [True, False])
def test_emptied_log_continues_after_a_restart(is_clean: bool, open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(retention_ms=SECOND)
    log.append(idempotent_batch(7, 0, b"a", b"b"))
    clock.advance(2 * SECOND)
    log.retention.enforce(clock.now_ms())
    recovery_point = log.flusher.recovery_point
    if is_clean:
        log.close()
    else:
        log._release("killed")
    again = open_log(retention_ms=SECOND, clean_shutdown=is_clean, recovery_point=recovery_point if is_clean else 0)
    assert (again.log_start_offset, again.log_end_offset) == (2, 2)
    assert not [name for name in files_of(again) if name.endswith(".deleted")]
    assert again.append(idempotent_batch(7, 2, b"c")).base_offset == 2  # its producer is still known: sequence 3 is not due
    assert again.append(idempotent_batch(7, 2, b"c")).duplicate


def test_segment_files_are_renamed_immediately_and_removed_after_the_delay(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, index_interval_bytes=0, retention_ms=5 * SECOND, file_delete_delay_ms=60 * SECOND)
    fill(log, 9000, 9000, 0)
    before = files_of(log)
    assert {f"{1:020}.snapshot", f"{2:020}.snapshot"} <= before
    log.retention.enforce(clock.now_ms())
    gone = {f"{base:020}{suffix}" for base in (0, 1) for suffix in (".log", ".index", ".timeindex")} | {f"{1:020}.snapshot"}
    assert files_of(log) == before - gone | {name + ".deleted" for name in gone}
    clock.advance(60 * SECOND - 1)
    assert len([name for name in files_of(log) if name.endswith(".deleted")]) == len(gone)
    clock.advance(1)
    assert files_of(log) == before - gone


def test_compact_only_log_deletes_only_below_its_start_offset(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=1, retention_bytes=1, cleanup_policy=COMPACT)
    fill(log, 9000, 9000, 9000)
    assert log.retention.enforce(clock.now_ms()) == 0
    log.close()
    log = open_log(segment_bytes=100, retention_ms=1, cleanup_policy=COMPACT, log_start_offset=1, clean_shutdown=True)
    assert bases(log) == [0, 1, 2]  # as after a kill between DeleteRecords' checkpoint and its deletion
    assert log.retention.enforce(clock.now_ms()) == 0  # nothing that could still be read
    assert bases(log) == [1, 2]
    log.update_config(log.config._replace(cleanup_policy=BOTH))
    assert log.retention.enforce(clock.now_ms()) == 2


def test_empty_cleanup_policy_deletes_nothing(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=1, cleanup_policy=frozenset())
    fill(log, 9000, 9000)
    assert log.retention.enforce(clock.now_ms()) == 0


def test_records_above_the_high_watermark_are_kept(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=1)
    fill(log, 9000)
    log.hold()
    fill(log, 9000, 9000)
    assert log.retention.enforce(clock.now_ms()) == 1
    assert (bases(log), log.log_start_offset) == ([1, 2], 1)
    log.release()
    assert log.retention.enforce(clock.now_ms()) == 2


def test_records_without_timestamps_expire_by_file_time(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=10 * SECOND)
    for _ in range(2):
        log.append(batch_of(b"x" * 20, timestamp=-1))
    for segment, age_ms in zip(log.segments, (10_001, 10_000), strict=True):
        os.utime(segment.log.path, ((NOW_MS - age_ms) / 1000,) * 2)
    assert (log.retention.enforce(clock.now_ms()), bases(log)) == (1, [1])


def test_future_timestamp_delays_deletion_of_its_segment(open_log: OpenLog, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    day = 24 * 3600 * SECOND
    log = open_log(segment_bytes=100, retention_ms=SECOND, message_timestamp_after_max_ms=2 * day)
    fill(log, 9000, -day, 9000, 9000)
    for _ in range(3):
        log.retention.enforce(clock.now_ms())
        assert bases(log) == [1, 2, 3]
    assert len([record for record in caplog.records if record.levelno == logging.WARNING and "in the future" in record.message]) == 1
    clock.advance(day + SECOND + 1)
    assert log.retention.enforce(clock.now_ms()) == 3


def test_clock_jumps(open_log: OpenLog, clock: ManualClock) -> None:
    """Back: nothing goes. Forward: what is too old by then, and nothing that is not."""
    day = 24 * 3600 * SECOND
    log = open_log(segment_bytes=100, retention_ms=7 * day)
    fill(log, 6 * day + 1, 5 * day, 0)
    clock.jump(-30 * day)
    assert log.retention.enforce(clock.now_ms()) == 0
    clock.jump(31 * day)
    assert (log.retention.enforce(clock.now_ms()), bases(log)) == (1, [1, 2])
    clock.jump(-day)
    assert log.retention.enforce(clock.now_ms()) == 0


def test_damaged_segment_does_not_prevent_retention(open_log: OpenLog, clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(segment_bytes=100, retention_ms=SECOND)
    fill(log, 9000, 9000, 0)
    log.close()
    first = Path(log.directory) / f"{0:020}.log"
    first.write_bytes(b"\xff" * SIZE)
    os.utime(first, ((NOW_MS - 9000) / 1000,) * 2)
    (Path(log.directory) / f"{0:020}.timeindex").unlink()
    log = open_log(segment_bytes=100, retention_ms=SECOND, clean_shutdown=True, recovery_point=3)
    assert (log.retention.enforce(clock.now_ms()), bases(log)) == (2, [2])
    assert str(first) in caplog.text


def test_deletions_are_limited_per_call(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_bytes=100, retention_ms=1)
    fill(log, *[9000] * 5)
    assert [log.retention.enforce(clock.now_ms(), limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert bases(log) == [5]


# A new segment's name is on the disk before the old ones lose theirs


class LateBackground(InlineBackground):
    """Work waits until the test lets it run."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.waiting.append(lambda: InlineBackground.submit(self, work, done))

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each()


def test_each_step_of_a_long_deletion_syncs_the_folder(open_log: OpenLog, clock: ManualClock) -> None:
    """Between two turns the log rolls and its start moves: the names of then must be on the disk, not only those of the first turn."""
    background = LateBackground()
    log = open_log(segment_bytes=100, background=background)
    fill(log, *[0] * 2 * SEGMENTS_A_TURN)
    log.advance_log_start_offset(log.log_end_offset)
    background.run()
    assert len(log.segments) == SEGMENTS_A_TURN
    fill(log, *[0] * SEGMENTS_A_TURN)
    log.advance_log_start_offset(log.log_end_offset)
    clock.advance(0)
    assert len(log.segments) == 2 * SEGMENTS_A_TURN
    background.run()
    clock.advance(0)
    assert len(log.segments) == 1


def test_new_segment_is_synced_before_old_ones_are_deleted(open_log: OpenLog, clock: ManualClock) -> None:
    background = LateBackground()
    log = open_log(retention_ms=1, background=background, file_delete_delay_ms=0)
    fill(log, 9000, 9000)
    assert log.retention.enforce(clock.now_ms()) == 1
    assert (log.log_start_offset, bases(log)) == (2, [0, 2])
    assert log.retention.enforce(clock.now_ms()) == 0
    assert read_values(log) == {}
    assert not [name for name in files_of(log) if name.endswith(".deleted")]
    background.run()
    assert bases(log) == [2]
    background.run()
    assert {name[:20] for name in files_of(log)} == {f"{2:020}", "leader-epoch-checkpoint"[:20]}


def test_failed_sync_deletes_nothing(open_log: OpenLog, clock: ManualClock) -> None:
    files = FaultyFiles()
    background = LateBackground()
    log = open_log(retention_ms=1, background=background, files=files)
    fill(log, 9000)
    log.retention.enforce(clock.now_ms())
    files.fail("sync_directory", errno.EIO)
    background.run()
    assert log.failures.offline_cause is not None
    assert f"{0:020}.log" in files_of(log)
    with pytest.raises(KafkaStorageError):
        log.retention.enforce(clock.now_ms())


@pytest.mark.parametrize("operation", ["rename", "open"])
def test_disk_failure_is_reported(operation: str, open_log: OpenLog, clock: ManualClock) -> None:
    files = FaultyFiles()
    log = open_log(retention_ms=1, files=files)
    told: list[OSError] = []
    log.failures.on_storage_error = lambda _, error: told.append(error)
    fill(log, 9000, 9000)
    files.fail(operation, errno.EIO)
    with contextlib.suppress(KafkaStorageError):
        log.retention.enforce(clock.now_ms())
    assert [error.errno for error in told] == [errno.EIO]
    again = open_log()
    assert again.log_end_offset == 2


# Rolling by time


def test_idle_segment_rolls_after_segment_ms(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_ms=10 * SECOND, retention_ms=-1)
    now_ms = clock.now_ms()
    log.retention.enforce(now_ms + 60 * SECOND)
    assert bases(log) == [0]  # empty: there is nothing to finish
    fill(log, 0)
    os.utime(log.segments.active.log.path, (now_ms / 1000,) * 2)
    log.retention.enforce(now_ms + 10 * SECOND)
    assert bases(log) == [0]
    log.retention.enforce(now_ms + 10 * SECOND + 1)
    assert bases(log) == [0, 1]
    log.retention.enforce(now_ms + 60 * SECOND)
    assert bases(log) == [0, 1]


def test_old_timestamps_alone_do_not_roll_a_segment(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(segment_ms=10 * SECOND, retention_ms=-1)
    fill(log, 3600 * SECOND)
    log.retention.enforce(clock.now_ms())
    assert bases(log) == [0]


def test_max_compaction_lag_rolls_a_segment(open_log: OpenLog) -> None:
    log = open_log(max_compaction_lag_ms=SECOND, cleanup_policy=COMPACT)
    fill(log, 0, -SECOND, -SECOND - 1)
    assert bases(log) == [0, 2]
    assert LogConfig(max_compaction_lag_ms=SECOND).max_segment_ms == LogConfig().segment_ms


# Idle producers


def test_producers_expire_by_write_time_not_by_record_timestamp(open_log: OpenLog, clock: ManualClock) -> None:
    """An import of old records: its producer is not idle."""
    log = open_log()
    for number in range(4):
        log.append(idempotent_batch(5, number, timestamp=NOW_MS - 10**9))
        clock.advance(600)
        log.remove_expired_producers(1000)
    assert log.append(idempotent_batch(5, 3, timestamp=NOW_MS - 10**9)).duplicate
    clock.advance(1000)
    log.remove_expired_producers(1000)
    assert not log.append(idempotent_batch(5, 3, timestamp=NOW_MS - 10**9)).duplicate


def test_write_times_are_bounded_and_approximate() -> None:
    times = WriteTimes(0, 0)
    written = {}
    for now_ms in range(1, 5000):
        written[now_ms] = now_ms  # offset now_ms - 1 is written at now_ms
        times.note(now_ms, now_ms, 1000)
        assert len(times._times_ms) <= 70
        for offset in (now_ms - 1, now_ms - 100, now_ms - 900):
            if offset > 0:
                assert 0 <= times.written_ms(offset) - (offset + 1) <= 2 * 1000 // 64
