"""The cleaner's choices and what comes of its work, with logs that are not there and a background that a test drives."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from minibroker.background import InlineBackground, WorkLost
from minibroker.clock import ManualClock
from minibroker.cluster.directories.cleaner import Cleaner
from minibroker.cluster.directories.log_directory import CleanerOffsets, LogDirectory
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import KafkaStorageError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import Files, RealFiles, ThrottledFiles

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
BACKOFF_MS = 15_000


@dataclass
class Cleanable:
    clean_bytes: int
    dirty_bytes: int
    must_clean: bool

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


class Segments:
    """All segments are closed but the last one, which is empty."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def active(self) -> Segments:
        return self

    @property
    def base_offset(self) -> int:
        return self._log.log_end_offset


@dataclass
class Compacted:
    next_dirty_offset: int
    bytes_read: int = 0
    bytes_left: int = 0
    key_count: int = 0


@dataclass
class Plan:
    """The work on one log."""

    log: Log
    next_dirty_offset: int
    now_ms: int = 0
    discarded: int = 0

    def run(self, files: Files) -> Compacted:
        if self.log.error is not None:
            raise self.log.error
        return Compacted(self.next_dirty_offset)

    def discard(self, files: Files) -> None:
        self.discarded += 1


@dataclass(eq=False)
class Log:
    """As much of a log as the cleaner needs: a byte an offset."""

    directory: str
    topic: str
    log_end_offset: int = 100
    partition: int = 0
    config: LogConfig = COMPACTED
    log_start_offset: int = 0
    must_clean: bool = False
    error: BaseException | None = None
    end_error: Exception | None = None
    is_wanted: bool = True  #: whether the result is taken
    offline_cause: OSError | None = None
    is_closed: bool = False
    asked: list[int] = field(default_factory=list)  #: first dirty offsets
    plans: list[Plan] = field(default_factory=list)
    map_bytes: int = 0

    @property
    def compaction(self) -> Log:
        return self

    failures = compaction

    @property
    def segments(self) -> Segments:
        return Segments(self)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def cleanable(self, first_dirty_offset: int, now_ms: int) -> Cleanable:
        return Cleanable(first_dirty_offset - self.log_start_offset, self.log_end_offset - first_dirty_offset, self.must_clean)

    def plan(self, first_dirty_offset: int, now_ms: int, *, offset_map_bytes: int) -> Plan:
        self.asked.append(first_dirty_offset)
        self.map_bytes = offset_map_bytes
        self.plans.append(Plan(self, self.log_end_offset))
        return self.plans[-1]

    def swap_in(self, compacted: Compacted) -> bool:
        if self.end_error is not None:
            raise self.end_error
        return self.is_wanted

    def close(self) -> None:
        self.is_closed = True
        self.offline_cause = OSError("closed")


class Processes(InlineBackground):
    """Work in processes ends when the test says so; other work is done at once."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.given_up = 0

    def submit_process(self, work: Callable[[], Any], done: Callable[[Any], None]) -> Callable[[], None]:
        self.work.append((work, done))

        def give_up() -> None:
            self.given_up += 1

        return give_up

    def finish(self, result: Any = None) -> None:
        work, done = self.work.pop(0)
        done(work() if result is None else result)


class Room:
    """A cleaner over one log directory with logs that a test puts there."""

    def __init__(self, folder: Path, background: InlineBackground | None = None, **properties: object) -> None:
        given = {"log.dirs": str(folder)} | {name.replace("_", "."): str(value) for name, value in properties.items()}
        self.folder = folder
        self.config = BrokerConfig(given)
        self.clock = ManualClock()
        self.background = background or InlineBackground()
        self.directory = LogDirectory(RealFiles(), str(folder))
        self.storage_errors: list[OSError] = []
        self.cleaner = Cleaner(
            self.config,
            [self.directory],
            files=RealFiles(),
            clock=self.clock,
            background=self.background,
            on_storage_error=lambda _, error: self.storage_errors.append(error),
        )
        self.cleaner.start()

    def log(self, topic: str, **values: Any) -> Log:
        log = Log(str(self.folder / f"{topic}-0"), topic, **values)
        Path(log.directory).mkdir()
        self.directory.logs[topic, 0] = cast(PartitionLog, log)
        return log

    def offset(self, log: Log) -> int:
        return self.directory.cleaner_offsets.first_dirty_offset((log.topic, 0), log.log_start_offset, log.log_end_offset)

    def running(self) -> Sequence[Log]:
        return cast(Sequence[Log], self.cleaner.running)

    def set_aside(self) -> Sequence[Log]:
        return cast(Sequence[Log], self.cleaner.set_aside)


def test_only_sufficiently_dirty_compacted_logs_are_compacted(tmp_path: Path) -> None:
    room = Room(tmp_path)
    dirty, clean, plain = room.log("dirty"), room.log("clean"), room.log("plain", config=LogConfig())
    room.directory.cleaner_offsets.advance(("clean", 0), 50)  # half is dirty, and more than half is asked for
    room.clock.advance(BACKOFF_MS)
    assert (dirty.asked, clean.asked, plain.asked) == ([0], [], [])
    assert room.offset(dirty) == 100
    clean.log_end_offset = 101
    dirty.log_end_offset = 150
    room.clock.advance(BACKOFF_MS)
    assert (dirty.asked, clean.asked) == ([0], [50])


def test_first_check_is_early_and_later_ones_follow_the_interval(tmp_path: Path) -> None:
    room = Room(tmp_path, log_cleaner_backoff_ms=60_000)
    log = room.log("orders")
    room.clock.advance(1000)
    assert log.asked == [0]
    log.log_end_offset = 1000
    room.clock.advance(59_999)
    assert log.asked == [0]
    room.clock.advance(1)
    assert log.asked == [0, 100]


def test_dirtiest_log_is_compacted_first(tmp_path: Path) -> None:
    processes = Processes()
    room = Room(tmp_path, processes)
    second, first, third = room.log("second"), room.log("first"), room.log("third")
    for log, offset in ((second, 20), (first, 10), (third, 30)):
        room.directory.cleaner_offsets.advance((log.topic, 0), offset)
    room.clock.advance(1000)
    assert room.running() == [first]
    processes.finish()
    assert room.running() == [second]
    processes.finish()
    assert room.running() == [third]
    processes.finish()
    assert room.running() == []


def test_overdue_log_is_compacted_at_any_dirty_ratio(tmp_path: Path) -> None:
    room = Room(tmp_path)
    log = room.log("orders", must_clean=True)
    room.directory.cleaner_offsets.advance(("orders", 0), 99)
    room.clock.advance(1000)
    assert log.asked == [99]
    room.clock.advance(BACKOFF_MS)
    assert log.asked == [99], "nothing is dirty any more"


def test_concurrency_is_limited_and_threads_share_the_memory(tmp_path: Path) -> None:
    processes = Processes()
    room = Room(tmp_path, processes, log_cleaner_threads=2, log_cleaner_dedupe_buffer_size=1000, log_cleaner_io_buffer_load_factor=0.5)
    logs = [room.log(name) for name in "abc"]
    room.clock.advance(BACKOFF_MS)
    assert len(room.running()) == 2
    assert {log.map_bytes for log in logs} == {250, 0}
    processes.finish()
    assert len(room.running()) == 2
    processes.finish()
    processes.finish()
    assert room.running() == []


@pytest.mark.parametrize("properties", [{"log_cleaner_enable": "false"}, {"log_cleaner_threads": 0}])
def test_disabled_cleaner_does_nothing(tmp_path: Path, properties: dict[str, Any]) -> None:
    room = Room(tmp_path, **properties)
    log = room.log("orders")
    room.clock.advance(10 * BACKOFF_MS)
    room.cleaner.compact([cast(PartitionLog, log)])
    assert log.asked == []


def test_compaction_on_demand_ignores_the_dirty_ratio(tmp_path: Path) -> None:
    room = Room(tmp_path)
    log, plain = room.log("orders"), room.log("plain", config=LogConfig())
    room.directory.cleaner_offsets.advance(("orders", 0), 99)
    room.clock.advance(1000)
    assert log.asked == []
    room.cleaner.compact(cast(list[PartitionLog], [log, plain]))
    assert log.asked == [99]
    room.cleaner.compact([cast(PartitionLog, log)])
    log.log_end_offset = 101
    room.clock.advance(BACKOFF_MS)
    assert log.asked == [99], "it was asked for when there was nothing to do: that is over"
    assert plain.asked == []


def test_cleaner_offset_survives_a_restart(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.log("orders", log_end_offset=42)
    room.clock.advance(1000)
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 42\n"
    offsets = CleanerOffsets(RealFiles(), str(tmp_path))
    offsets.load()
    assert offsets.first_dirty_offset(("orders", 0), 0, 100) == 42


def test_invalid_cleaner_offset_falls_back_to_the_log_start(tmp_path: Path) -> None:
    offsets = CleanerOffsets(RealFiles(), str(tmp_path))
    offsets.advance(("orders", 0), 42)
    assert offsets.first_dirty_offset(("orders", 0), 43, 100) == 43
    assert offsets.first_dirty_offset(("orders", 0), 7, 41) == 7
    assert offsets.first_dirty_offset(("orders", 0), 42, 42) == 42
    offsets.check(("orders", 0), 41)  # the log lost its end, and then grew
    assert offsets.first_dirty_offset(("orders", 0), 7, 100) == 7
    offsets.write()
    again = CleanerOffsets(RealFiles(), str(tmp_path))
    again.load()
    assert again.was_compacted(("orders", 0))  # its offsets have gaps, which a recovery must not take for lost records


def test_new_log_does_not_inherit_an_offset_being_written(tmp_path: Path) -> None:
    is_begun, may_go_on = threading.Event(), threading.Event()

    class SlowFiles(RealFiles):
        def open(self, path: str, flags: int) -> int:
            if threading.current_thread() is not threading.main_thread():
                is_begun.set()
                may_go_on.wait(60)
            return super().open(path, flags)

    offsets = CleanerOffsets(SlowFiles(), str(tmp_path))
    offsets.advance(("orders", 0), 42)
    worker = threading.Thread(target=offsets.write)
    worker.start()
    assert is_begun.wait(60)
    offsets.remove(("orders", 0))
    threading.Timer(0.01, may_go_on.set).start()
    offsets.forget(("orders", 0))
    worker.join()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n0\n"


def test_new_log_does_not_inherit_an_offset(tmp_path: Path) -> None:
    offsets = CleanerOffsets(RealFiles(), str(tmp_path))
    offsets.advance(("orders", 0), 42)
    offsets.advance(("other", 0), 1)
    offsets.write()
    offsets.remove(("orders", 0))
    again = CleanerOffsets(RealFiles(), str(tmp_path))
    again.load()
    again.forget(("orders", 0))
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nother 0 1\n"
    again.settle({("more", 0)})
    again.write()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    again.close(wait=True)
    again.advance(("late", 0), 1)
    again.write()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n0\n", "another process may own the directory"


def test_corrupt_checkpoint_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cleaner-offset-checkpoint").write_text("garbage")
    offsets = CleanerOffsets(RealFiles(), str(tmp_path))
    offsets.load()
    assert offsets.first_dirty_offset(("orders", 0), 3, 100) == 3
    assert "every log is compacted from its start" in caplog.text


def test_failed_compaction_only_disables_its_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    room = Room(tmp_path)
    bad, good = room.log("bad", error=ValueError("no record")), room.log("good")
    room.clock.advance(10 * BACKOFF_MS)
    assert (bad.asked, good.asked) == ([0], [0])
    assert bad.plans[0].discarded == 1
    assert room.set_aside() == [bad]
    assert "bad-0 is no longer compacted until the next start: ValueError: no record" in caplog.text


def test_full_disk_is_retried(tmp_path: Path) -> None:
    room = Room(tmp_path, log_cleaner_backoff_ms=1000)
    logs = [room.log(name, error=OSError(errno.ENOSPC, "full")) for name in "ab"]
    room.clock.advance(1000)
    assert [log.asked for log in logs] == [[0], [0]]
    assert [log.plans[0].discarded for log in logs] == [1, 1]
    room.clock.advance(1000)
    assert [log.asked for log in logs] == [[0, 0], [0, 0]]
    logs[0].error = None
    room.clock.advance(1000)
    assert room.offset(logs[0]) == 100
    assert room.storage_errors == []


def test_disk_failure_is_reported_to_the_directory(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.log("orders", error=OSError(errno.EIO, "broken"))
    room.clock.advance(1000)
    assert [error.errno for error in room.storage_errors] == [errno.EIO]
    room.log("payments", end_error=KafkaStorageError("told already"))
    room.clock.advance(BACKOFF_MS)
    assert room.running() == []
    assert room.set_aside() == []


def test_lost_process_is_retried_a_limited_number_of_times(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    room = Room(tmp_path, log_cleaner_backoff_ms=1000)
    log = room.log("orders", error=WorkLost("killed"))
    for count in (1, 2, 3, 3):
        room.clock.advance(1000)
        assert len(log.asked) == count
    assert room.set_aside() == [log]
    assert caplog.text.count("(will retry)") == 2


def test_segments_deleted_by_retention_are_not_a_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    processes = Processes()
    room = Room(tmp_path, processes, log_cleaner_backoff_ms=1000)
    log = room.log("orders")
    for count in range(1, 6):
        room.clock.advance(1000)
        log.log_start_offset += 1
        processes.finish(FileNotFoundError(errno.ENOENT, "gone"))
        assert log.plans[-1].discarded == 1
        assert len(log.asked) == count
    assert caplog.text == ""


def test_checkpoint_is_written_before_the_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = Processes()
    room = Room(tmp_path, processes, log_cleaner_backoff_ms=1000)
    log = room.log("orders")
    full = True

    def write() -> None:
        if full:
            raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(room.directory.cleaner_offsets, "write", write)
        room.clock.advance(1000)
        processes.finish()
        assert (room.running(), log.plans[0].discarded, room.offset(log)) == ([], 1, 0)
    room.clock.advance(1000)
    processes.finish()
    assert room.offset(log) == 100


def test_rejected_result_is_retried_after_the_interval(tmp_path: Path) -> None:
    room = Room(tmp_path, log_cleaner_backoff_ms=1000)
    log = room.log("orders", is_wanted=False)
    room.clock.advance(1000)
    assert log.asked == [0]
    assert room.offset(log) == 0
    log.is_wanted = True
    room.clock.advance(1000)
    assert log.asked == [0, 0]
    assert room.offset(log) == 100


def test_compaction_of_a_deleted_log_is_cancelled(tmp_path: Path) -> None:
    processes = Processes()
    room = Room(tmp_path, processes)
    log, other = room.log("orders"), room.log("other")
    room.clock.advance(1000)
    assert room.running() == [log]
    room.cleaner.cancel(cast(PartitionLog, log))
    log.close()
    del room.directory.logs["orders", 0]
    assert processes.given_up == 1
    processes.finish(WorkLost("killed"))
    assert log.plans[0].discarded == 0, "there may be a new topic of that name, with such files of its own"
    room.clock.advance(BACKOFF_MS)
    assert room.running() == [other]


def test_compaction_is_cancelled_when_the_policy_changes_and_may_resume(tmp_path: Path) -> None:
    processes = Processes()
    room = Room(tmp_path, processes)
    log = room.log("orders")
    room.clock.advance(1000)
    log.config = LogConfig()
    room.cleaner.reconsider()
    assert (room.running(), processes.given_up) == ([], 1)
    log.config = COMPACTED
    room.cleaner.reconsider()
    room.clock.advance(0)
    assert room.running() == [], "the former process may still write"
    processes.finish(WorkLost("killed"))
    assert log.plans[0].discarded == 1
    room.clock.advance(BACKOFF_MS)
    assert room.running() == [log]


def test_changed_configuration_is_checked_immediately(tmp_path: Path) -> None:
    room = Room(tmp_path)
    log = room.log("orders", config=LogConfig())
    room.clock.advance(1000)
    log.config = COMPACTED
    room.cleaner.reconsider()
    room.clock.advance(0)
    assert log.asked == [0]


def test_stop_cancels_running_compactions_and_starts_none(tmp_path: Path) -> None:
    processes = Processes()
    room = Room(tmp_path, processes)
    log = room.log("orders")
    room.clock.advance(1000)
    room.cleaner.stop()
    assert processes.given_up == 1
    log.close()
    processes.finish()
    room.clock.advance(10 * BACKOFF_MS)
    room.cleaner.reconsider()
    room.clock.advance(10 * BACKOFF_MS)
    assert len(log.asked) == 1
    assert room.offset(log) == 0


@pytest.mark.parametrize("rate, is_throttled", [(1e6, True), (1.7976931348623157e308, False)])
def test_io_is_throttled_if_configured(tmp_path: Path, rate: float, is_throttled: bool) -> None:
    processes = Processes()
    room = Room(tmp_path, processes, log_cleaner_io_max_bytes_per_second=rate)
    room.log("orders")
    room.clock.advance(1000)
    work = cast(Any, processes.work[0][0])
    assert isinstance(work.args[0], ThrottledFiles) == is_throttled


def test_successful_compaction_logs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    room = Room(tmp_path)
    room.log("orders")
    with caplog.at_level(logging.WARNING):
        room.clock.advance(BACKOFF_MS)
    assert caplog.text == ""
