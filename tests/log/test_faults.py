"""When the file system fails: no acknowledgement, no half batch, nothing taken for done (FAULTS 2, 8)."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibroker.background import InlineBackground
from minibroker.clock import ManualClock
from minibroker.errors import KafkaStorageError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.log.results import IsolationLevel
from minibroker.records.any_format import split_batches
from minibroker.storage.file_slice import LEAST_SIZE, FileSlice
from minibroker.storage.files import RealFiles
from tests.log.conftest import OpenLog
from tests.support.faulty_files import FaultyFiles
from tests.support.log_batches import batch_of, idempotent_batch, read_values

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("torn_at", [None, 0, 1, 61, 70])
def test_failed_write_is_truncated(code: int, torn_at: int | None, open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    told: list[int | None] = []
    log.failures.on_storage_error = lambda _, error: told.append(error.errno)
    log.append(idempotent_batch(5, 0, b"before"))
    files.fail("write", code, torn_at=torn_at, path_part=".log")

    with pytest.raises(KafkaStorageError) as raised:
        log.append(idempotent_batch(5, 1, b"refused"))

    assert isinstance(raised.value.__cause__, OSError)
    assert told == [code]
    assert log.failures.offline_cause is None
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    appended = log.append(idempotent_batch(5, 1, b"again"))
    assert (appended.base_offset, appended.duplicate) == (1, False)
    assert read_values(log) == {0: b"before", 1: b"again"}
    log.close()
    assert read_values(open_log()) == {0: b"before", 1: b"again"}


def test_failed_truncation_takes_the_partition_offline(open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    log.append(batch_of(b"before"))
    files.fail("write", errno.ENOSPC, torn_at=30, path_part=".log")
    files.fail("truncate", errno.EIO)
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            log.append(batch_of(b"refused"))
    assert log.failures.offline_cause is not None
    for call in (
        lambda: log.read(0, 100, isolation=UNCOMMITTED),
        lambda: log.timestamps.offset_for_timestamp(0),
        log.timestamps.max_timestamp_offset,
        lambda: log.advance_log_start_offset(1),
        lambda: log.assign_leader_epoch(9),
        log.flusher.flush,
        log.close,
    ):
        if call is log.flusher.flush:
            log.flusher.recovery_point = 0
        with pytest.raises(KafkaStorageError, match="offline"):
            call()
    log.close(clean=False)
    assert read_values(open_log()) == {0: b"before"}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("file", ["2.snapshot", "2.index", "2.timeindex", "2.log"])
def test_failed_roll_does_not_lose_later_records(file: str, is_clean: bool, open_log: OpenLog) -> None:
    """Too few descriptors at a roll: what fits goes on into the old segment, beyond where the new one would have begun."""
    files = FaultyFiles()
    log = open_log(files=files, segment_bytes=400)
    log.append(batch_of(b"a" * 60))
    log.append(batch_of(b"b" * 60))
    files.fail("open", errno.EMFILE, path_part=file, times=99)
    with pytest.raises(KafkaStorageError):
        log.append(batch_of(b"c" * 290))
    files.heal()
    assert log.append(batch_of(b"d")).base_offset == 2
    assert log.append(batch_of(b"e" * 290)).base_offset == 3
    log.close(clean=is_clean)

    again = open_log(clean_shutdown=is_clean, recovery_point=4 if is_clean else 0)
    assert read_values(again) == {0: b"a" * 60, 1: b"b" * 60, 2: b"d", 3: b"e" * 290}
    assert [batch.base_offset for batch in split_batches(again.read(2, 1, isolation=UNCOMMITTED))] == [2]


def test_more_unflushed_segments_than_open_files(open_log: OpenLog) -> None:
    """As behind a recovery point that was lost: the log could be neither flushed nor closed in order, nor lose old segments."""
    log = open_log(segment_bytes=80)
    for number in range(150):
        log.append(batch_of(b"%d" % number))
    log.close(clean=False)
    files = FaultyFiles(max_open_files=20, max_descriptors=80)
    log = open_log(files=files, segment_bytes=80)
    synced = files.counts.get("sync", 0)
    assert (len(log.segments), log.flusher.recovery_point) == (150, 0)
    log.flusher.flush()
    assert log.flusher.recovery_point == 150
    assert files.counts["sync"] - synced >= 150
    log.close()
    assert len(read_values(open_log(clean_shutdown=True, recovery_point=150))) == 150


def test_failed_flush_of_old_segments_takes_the_log_offline(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=80)
    for number in range(30):
        log.append(batch_of(b"%d" % number))
    log.close(clean=False)
    files = FaultyFiles()
    log = open_log(files=files, segment_bytes=80)
    files.fail("sync", errno.EIO, path_part="0003.log")
    with pytest.raises(KafkaStorageError):
        log.flusher.flush()
    assert log.flusher.recovery_point == 0
    assert log.failures.offline_cause is not None


def test_short_write_is_completed(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    class ShortWrites(RealFiles):
        def write(self, descriptor: int, data: bytes, /) -> int:  # type: ignore[override]  # a method where there is a system call
            return RealFiles.write(descriptor, memoryview(data)[:7])

    log = open_log(files=ShortWrites())
    log.append(batch_of(b"a" * 100))
    assert read_values(log) == {0: b"a" * 100}


def test_failed_fsync_does_not_advance_the_recovery_point(open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    log.append(batch_of(b"a"))
    log.flusher.flush()
    log.append(batch_of(b"b"))
    files.fail("sync", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.flusher.flush()
    assert (log.flusher.recovery_point, log.flusher.unflushed_messages) == (1, 1)
    for _ in range(3):
        with pytest.raises(KafkaStorageError, match="offline"):
            log.flusher.flush()
    with pytest.raises(KafkaStorageError):
        log.append(batch_of(b"c"))
    assert log.flusher.recovery_point == 1
    assert not Path(log.directory, f"{2:020d}.snapshot").exists()


def test_flush_covers_records_appended_before_it_started(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=200)
    for _ in range(5):
        log.append(batch_of(b"x" * 60))
    flush = log.flusher.begin_flush()
    log.append(batch_of(b"y" * 60))
    flush.run()
    log.flusher.end_flush(flush, None)
    assert (log.flusher.recovery_point, log.flusher.unflushed_messages) == (5, 1)
    late = log.flusher.begin_flush()
    failed = log.flusher.begin_flush()
    with pytest.raises(KafkaStorageError):
        log.flusher.end_flush(failed, OSError(errno.EIO, "disk"))
    with pytest.raises(KafkaStorageError):
        log.flusher.end_flush(late, None)
    assert log.flusher.recovery_point == 5


class LaterBackground(InlineBackground):
    """Work that a test runs when it likes."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.work.append((work, done))

    def run(self) -> None:
        while self.work:
            work, done = self.work.pop(0)
            result = None
            try:
                result = work()
            except OSError as error:
                result = error
            done(result)


def test_rolled_segment_is_synced_in_the_background(open_log: OpenLog) -> None:
    background, files = LaterBackground(), FaultyFiles()
    log = open_log(segment_bytes=200, background=background, files=files)
    for _ in range(4):
        log.append(batch_of(b"x" * 60))
    assert log.flusher.recovery_point == 0
    background.run()
    assert (log.flusher.recovery_point, log.log_end_offset) == (3, 4)

    log.append(batch_of(b"x" * 60))
    files.fail("sync", errno.EIO)
    background.run()
    assert log.flusher.recovery_point == 3
    assert log.failures.offline_cause is not None


def test_log_may_be_closed_during_a_background_sync(open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    background, files = LaterBackground(), FaultyFiles()
    log = open_log(segment_bytes=200, background=background, files=files)
    for _ in range(4):
        log.append(batch_of(b"x" * 60))
    log.close()
    background.run()
    assert not caplog.records
    assert not files._paths


def test_new_segment_folder_entry_is_synced_before_its_records_count_as_flushed(open_log: OpenLog) -> None:
    """Also while an earlier flush that was to sync the folder has not ended yet."""

    class Noting(FaultyFiles):
        folders: list[str] = []  # noqa: RUF012  one instance

        def sync_directory(self, path: str) -> None:
            self.folders.append(path)

    background, files = LaterBackground(), Noting()
    log = open_log(segment_bytes=200, background=background, files=files)
    log.append(batch_of(b"x" * 60))
    log.flusher.flush()
    assert files.folders == [log.directory, str(Path(log.directory).parent)]
    files.folders.clear()
    for _ in range(3):
        log.append(batch_of(b"x" * 60))
    assert background.work
    log.flusher.flush()
    assert files.folders == [log.directory]
    background.run()


def test_flush_of_a_log_deleted_meanwhile_fails_without_logging(open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log()
    told: list[OSError] = []
    log.failures.on_storage_error = lambda _, error: told.append(error)
    log.append(batch_of(b"a"))
    flush = log.flusher.begin_flush()
    log.delete()
    with pytest.raises(KafkaStorageError):
        log.flusher.end_flush(flush, FileNotFoundError(errno.ENOENT, "the folder has another name"))
    with pytest.raises(KafkaStorageError):
        log.flusher.begin_flush()  # a request may have waited for its turn to sync
    assert (told, caplog.records) == ([], [])


def test_flushes_are_due_by_count_and_by_time(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(flush_messages=3, flush_ms=1000)
    assert not log.flusher.is_due(clock.now_ms() + 10_000)
    log.append(batch_of(b"a", b"b"))
    assert not log.flusher.is_due(clock.now_ms())
    assert log.flusher.is_due(clock.now_ms() + 1000)
    assert log.flusher.is_due(clock.now_ms() - 86_400_000)
    log.append(batch_of(b"c"))
    assert log.flusher.is_due(clock.now_ms())
    log.flusher.flush()
    assert not log.flusher.is_due(clock.now_ms() + 10_000)


@pytest.mark.parametrize("operation", ["open", "write", "rename"])
def test_failed_roll_keeps_the_old_segment(operation: str, open_log: OpenLog) -> None:
    files = FaultyFiles()
    size = len(batch_of(b"x"))
    log = open_log(files=files, segment_bytes=size)
    log.append(batch_of(b"x"))
    files.fail(operation, errno.ENOSPC, times=100, path_part="0001" if operation == "open" else "")
    for _ in range(2):
        with pytest.raises(KafkaStorageError):
            log.append(batch_of(b"y"))
    files.heal()
    assert log.append(batch_of(b"z")).base_offset == 1
    assert read_values(log) == {0: b"x", 1: b"z"}
    log.close()
    assert read_values(open_log(segment_bytes=size, clean_shutdown=True)) == {0: b"x", 1: b"z"}


def test_failed_read_is_a_storage_error_and_can_be_retried(open_log: OpenLog) -> None:
    files = FaultyFiles()
    log = open_log(files=files)
    log.append(batch_of(b"a"))
    files.fail("read_at", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.read(0, 100, isolation=UNCOMMITTED)
    assert read_values(log) == {0: b"a"}


def test_unreadable_folder_is_a_storage_error(open_log: OpenLog) -> None:
    files = FaultyFiles()
    files.fail("open", errno.EROFS, times=9)
    with pytest.raises(KafkaStorageError) as raised:
        open_log(files=files)
    assert isinstance(raised.value.__cause__, OSError)  # whether the partition tries again depends on it


def test_a_thousand_logs_share_few_descriptors(tmp_path: Path) -> None:
    """EMFILE: files beyond the pool's capacity, or beyond what the process may open, close others."""
    files = FaultyFiles(max_open_files=1000, max_descriptors=40)
    logs = [
        PartitionLog.open(tmp_path / f"orders-{index}", config=LogConfig(segment_bytes=500), files=files, clock=ManualClock())
        for index in range(120)
    ]
    for turn in range(5):
        for index, log in enumerate(logs):
            log.append(batch_of(b"%d %d" % (index, turn) * 20))
    for index, log in enumerate(logs):
        assert read_values(log) == {turn: b"%d %d" % (index, turn) * 20 for turn in range(5)}
        log.close()
    assert 30 < files.most_descriptors <= 40
    assert len(files.handles) == 0
    assert not files._paths


def test_large_read_needs_no_more_descriptors(open_log: OpenLog) -> None:
    """It would have one of its own, for sendfile; when there is none left it is read by the one that is open."""
    files = FaultyFiles()
    log = open_log(files=files)
    log.append(batch_of(bytes(LEAST_SIZE)))
    assert isinstance(log.slice(0, 1 << 20, isolation=UNCOMMITTED), FileSlice)
    files.fail("duplicate", errno.EMFILE, times=9)
    data = log.slice(0, 1 << 20, isolation=UNCOMMITTED)
    assert isinstance(data, bytes)
    assert data == log.read(0, 1 << 20, isolation=UNCOMMITTED)
    files.heal()
    files.fail("duplicate", errno.EIO)
    with pytest.raises(KafkaStorageError):
        log.slice(0, 1 << 20, isolation=UNCOMMITTED)


@pytest.mark.parametrize("seed", range(60))
def test_power_loss_only_truncates_unflushed_records(seed: int, tmp_path: Path) -> None:
    """FAULTS 2: flushed records are all there; of the others only a suffix is missing; whatever is read has a right CRC."""
    rng = random.Random(seed)
    files = FaultyFiles()
    folder = tmp_path / "orders-0"
    config = LogConfig(segment_bytes=700, index_interval_bytes=150)
    written: list[bytes] = []
    recovery_point = flushed = 0
    for _ in range(3):
        log = PartitionLog.open(folder, config=config, files=files, clock=ManualClock(), recovery_point=recovery_point)
        found = read_values(log)
        assert list(found.values()) == written[: len(found)]
        assert len(found) >= flushed
        del written[len(found) :]
        for _ in range(rng.randrange(20)):
            value = rng.randbytes(rng.randrange(100))
            log.append(batch_of(value))
            written.append(value)
            if rng.random() < 0.2:
                log.flusher.flush()
                flushed = len(written)
        recovery_point = rng.choice([0, log.flusher.recovery_point])
        log._release("power loss")
        files.lose_power(folder, rng)


def test_delete_renames_immediately_and_removes_later(open_log: OpenLog, clock: ManualClock, tmp_path: Path) -> None:
    log = open_log(file_delete_delay_ms=60_000)
    log.append(batch_of(b"a"))
    log.delete()
    (renamed,) = tmp_path.iterdir()
    assert renamed.name.startswith("orders-0.")
    assert renamed.name.endswith("-delete")
    with pytest.raises(KafkaStorageError, match="deleted"):
        log.append(batch_of(b"b"))
    assert open_log().log_end_offset == 0
    clock.advance(60_000)
    assert [path.name for path in tmp_path.iterdir()] == ["orders-0"]
