"""Look-ups by time: whatever the timestamps, and whatever happened to the log, the answer is what a search record by record finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import TimestampOffset
from minibroker.records.any_format import decode_records
from minibroker.records.builder import build_batch
from minibroker.records.compression import Compression
from minibroker.records.record import Record
from minibroker.storage.files import RealFiles
from tests.log.conftest import OpenLog
from tests.support.compacting import COMPACT, compact
from tests.support.log_batches import NOW_MS, batch_of, read_batches

NEVER = 1 << 60
HOUR = 3_600_000


def rising(rng: random.Random, index: int) -> int:
    return NOW_MS + index * 50


def disordered(rng: random.Random, index: int) -> int:
    return NOW_MS + index * 50 + rng.randint(-3000, 3000)


def equal(rng: random.Random, index: int) -> int:
    return NOW_MS + index // 40


def falling(rng: random.Random, index: int) -> int:
    return NOW_MS - index * 50


def with_one_far_ahead(rng: random.Random, index: int) -> int:
    return NOW_MS + 1000 * HOUR if index == 30 else NOW_MS + index * 50


def some_absent(rng: random.Random, index: int) -> int:
    return -1 if rng.random() < 0.4 else NOW_MS + index * 50


TIMES = [rising, disordered, equal, falling, with_one_far_ahead, some_absent]


class Log:
    """A log that can be opened again, filled by a rule for timestamps."""

    def __init__(self, folder: Path, times: Callable[[random.Random, int], int], **config: Any) -> None:
        self.rng = random.Random(5)
        self.folder = folder
        self.times = times
        self.clock = ManualClock()
        self.config = LogConfig(segment_bytes=1500, index_interval_bytes=200, message_timestamp_after_max_ms=NEVER, **config)
        self.open(clean_shutdown=False)

    def open(self, **arguments: Any) -> None:
        self.log = PartitionLog.open(self.folder / "orders-0", config=self.config, files=RealFiles(), clock=self.clock, **arguments)

    def fill(self, count: int = 120, key_count: int = 1000) -> None:
        for index in range(count):
            base = self.times(self.rng, index)
            times = [base if base < 0 else base + self.rng.randint(0, 3) for _ in range(self.rng.randint(1, 4))]
            records = [
                Record(number, time, b"%d" % self.rng.randrange(key_count), self.rng.randbytes(30)) for number, time in enumerate(times)
            ]
            self.log.append(memoryview(build_batch(records, compression=self.rng.choice([Compression.NONE, Compression.LZ4]))))
            self.clock.advance(7)

    def check(self) -> None:
        """Every interesting target, from every kind of start."""
        start = self.log.log_start_offset
        everything = [
            TimestampOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
            for batch in read_batches(self.log)
            for record in decode_records(batch)
            if record.offset >= start
        ]
        known = sorted({each.timestamp for each in everything if each.timestamp >= 0})
        assert known
        targets = {0, known[0] - 1, known[-1], known[-1] + 1, *self.rng.sample(known, min(60, len(known)))}
        for target in targets | {each + 1 for each in targets}:
            assert self.log.timestamps.offset_for_timestamp(target) == next(
                (each for each in everything if each.timestamp >= target), None
            ), target
        assert self.log.timestamps.max_timestamp_offset() == max(everything, key=lambda each: each.timestamp)


@pytest.fixture(params=TIMES, ids=[times.__name__ for times in TIMES])
def times(request: pytest.FixtureRequest) -> Callable[[random.Random, int], int]:
    found: Callable[[random.Random, int], int] = request.param
    return found


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_lookup_while_the_log_grows_and_rolls(times: Any, timestamp_type: str, tmp_path: Path) -> None:
    log = Log(tmp_path, times, message_timestamp_type=timestamp_type)
    for _ in range(3):
        log.fill(40)
        log.check()
    assert len(log.log.segments) > 5


@pytest.mark.parametrize("how", ["stopped", "killed", "killed before anything was synced"])
def test_lookup_after_a_restart(times: Any, how: str, tmp_path: Path) -> None:
    log = Log(tmp_path, times)
    log.fill()
    if how == "stopped":
        log.log.close()
        log.open(clean_shutdown=True, recovery_point=log.log.log_end_offset)
    else:
        log.log._release("killed")
        log.open(recovery_point=log.log.log_end_offset // 2 if how == "killed" else 0)
    log.check()
    log.fill(20)
    log.check()


def test_lookup_without_time_indexes(times: Any, tmp_path: Path) -> None:
    log = Log(tmp_path, times)
    log.fill()
    log.log.close()
    for path in sorted((tmp_path / "orders-0").glob("*.timeindex"))[::2]:
        path.unlink()
    log.open(clean_shutdown=True, recovery_point=log.log.log_end_offset)
    log.check()


def test_lookup_after_deleting_records(times: Any, tmp_path: Path) -> None:
    log = Log(tmp_path, times)
    log.fill()
    end = log.log.log_end_offset
    for start in (1, end // 3, end // 2 + 1, end - 3):
        log.log.advance_log_start_offset(start)
        if any(record.timestamp >= 0 for batch in read_batches(log.log) for record in decode_records(batch) if record.offset >= start):
            log.check()


def test_lookup_after_retention(times: Any, tmp_path: Path) -> None:
    log = Log(tmp_path, times, retention_bytes=4000, retention_ms=-1)
    log.fill()
    assert log.log.retention.enforce(log.clock.now_ms())
    log.check()


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("key_count", [3, 40], ids=["few keys", "many keys"])
def test_lookup_after_compaction(times: Any, key_count: int, restart: bool, tmp_path: Path) -> None:
    log = Log(tmp_path, times, cleanup_policy=COMPACT)
    dirty = 0
    for _ in range(2):
        log.fill(60, key_count)
        dirty = compact(log.log, dirty, now_ms=log.clock.now_ms()).next_dirty_offset
        log.check()
    if restart:
        log.log.close()
        log.open(clean_shutdown=True, recovery_point=log.log.log_end_offset)
        log.check()


def test_lookup_ignores_empty_batches_left_by_compaction(open_log: OpenLog) -> None:
    """What is left of a producer's last batch has its timestamps in the header, and no record."""
    log = open_log(cleanup_policy=COMPACT)
    records = [Record(0, NOW_MS + 500, b"a", b"1")]
    log.append(memoryview(build_batch(records, producer_id=7, producer_epoch=0, base_sequence=0)))
    log._roll()
    log.append(memoryview(build_batch([Record(0, NOW_MS, b"a", b"2")])))
    log._roll()
    log.append(batch_of(b"x", timestamp=NOW_MS - 10))
    compact(log)
    assert [(batch.base_offset, batch.record_count) for batch in read_batches(log)][:2] == [(0, 0), (1, 1)]
    assert log.timestamps.offset_for_timestamp(NOW_MS - 5) == TimestampOffset(NOW_MS, 1, 0)
    assert log.timestamps.offset_for_timestamp(NOW_MS + 1) is None
    assert log.timestamps.max_timestamp_offset() == TimestampOffset(NOW_MS, 1, 0)
