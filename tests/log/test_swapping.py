"""A compaction that dies before any change of the disk, fails at any of them, or left files behind as Apache Kafka leaves them."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import pytest

from minibroker.clock import ManualClock
from minibroker.errors import KafkaStorageError
from minibroker.log.compaction_round import CompactionPlan
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.records.control import ControlType
from minibroker.storage.files import Files, RealFiles
from minibroker.storage.log_file_names import file_name
from tests.cluster.crashing import Died, MortalFiles
from tests.support.compacting import COMPACT, NOW_MS, KeyValue, compact, left_in, put, transaction
from tests.support.faulty_files import FaultyFiles

CONFIG = LogConfig(cleanup_policy=COMPACT, segment_bytes=600, index_interval_bytes=1, file_delete_delay_ms=0)
END_OFFSET = 44
VOID = (12, 22)  #: offsets of what was aborted


def open_in(folder: Path, files: Files | None = None, *, clean: bool = True) -> PartitionLog:
    return PartitionLog.open(
        folder / "orders-0", config=CONFIG, files=files or RealFiles(), clock=ManualClock(), clean_shutdown=clean, recovery_point=0
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed log of several segments that become three; the first two have aborted transactions."""
    folder = tmp_path_factory.mktemp("written")
    log = open_in(folder)
    for number in range(20):
        put(log, (b"%d" % (number % 2), b"%d" % number), (b"once %d" % number, b"x" * 20), roll=number % 4 == 3)
        if number in {5, 9}:
            transaction(log, number, ControlType.ABORT, (b"0", b"void"))
    log.producers.producers.clear()
    log.close()
    return folder


def plan_for(log: PartitionLog) -> CompactionPlan:
    plan = log.compaction.plan(0, NOW_MS, offset_map_bytes=100_000)
    assert plan is not None
    return plan


def newest_in(found: dict[int, KeyValue]) -> dict[bytes | None, bytes | None]:
    """The last value of each key; control records have keys of their own."""
    return {key: value for offset, (key, value) in found.items() if offset not in VOID and offset - 1 not in VOID}


def check(folder: Path, before: dict[int, KeyValue], *, clean: bool) -> None:
    """Nothing is lost that counts, nothing is left over, and a compaction now does its work."""
    log = open_in(folder, clean=clean)
    found = left_in(log)
    assert found.items() <= before.items()
    newest = newest_in(before)
    assert newest_in(found) == newest
    assert log.log_end_offset == END_OFFSET
    assert log.aborted_transactions(0, END_OFFSET) == [(5, 12), (9, 22)]
    names = {path.name for path in Path(log.directory).iterdir()}
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted", ".tmp"))]
    for segment in log.segments:
        for header in segment.headers_from(0):
            assert segment.find(header.last_offset) == header
    compact(log)
    again = left_in(log)
    assert newest_in(again) == newest
    assert again.keys() & VOID == set()
    assert len([offset for offset in again if offset < log.segments.active.base_offset]) <= len(newest) + 2  # and two markers
    log.close()


@pytest.mark.parametrize("clean", [True, False])
def test_crash_before_every_file_operation(written: Path, tmp_path: Path, *, clean: bool) -> None:
    before = left_in(open_in(written))
    lives, died = 0, True
    while died:
        folder = tmp_path / str(lives)
        shutil.copytree(written, folder)
        log = open_in(folder)
        files = MortalFiles(lives)
        log._files = files
        for segment in log.segments:
            segment._files = files
        try:
            assert log.compaction.swap_in(plan_for(log).run(files))
            died = False
        except Died:
            died = True
        log._release("dead")
        if lives % 3 == 0:
            for second in range(0, 30, 4):
                try:
                    open_in(folder, MortalFiles(second), clean=clean)._release("dead")
                except Died:
                    continue
        check(folder, before, clean=clean)
        lives += 1
    assert lives > 50


def test_failure_of_every_file_operation(written: Path, tmp_path: Path) -> None:
    """ENOSPC or EIO in the work: the files go, and the log is as it was. In the swap: the log is offline until it is opened anew."""
    before = left_in(open_in(written))
    for operation in ("open", "write", "sync", "rename"):
        for after in range(0, 100, 2):
            folder = tmp_path / f"{operation}{after}"
            shutil.copytree(written, folder)
            files = FaultyFiles()
            log = open_in(folder, files)
            plan = plan_for(log)
            log_files = len(list((folder / "orders-0").iterdir()))
            files.fail(operation, errno.ENOSPC, after=after)
            try:
                compacted = plan.run(files)
            except OSError:
                files.heal()
                plan.discard(files)
                assert len(list((folder / "orders-0").iterdir())) == log_files
                assert left_in(log) == before
            else:
                try:
                    assert log.compaction.swap_in(compacted)
                    break
                except KafkaStorageError:
                    files.heal()
                    assert log.failures.offline_cause is not None
            log.close(clean=False) if log.failures.offline_cause is None else log._release("offline")
            check(folder, before, clean=True)
            shutil.rmtree(folder)
        assert after > 3, operation


def test_swapped_in_files_are_synced(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written, tmp_path / "log")
    files = FaultyFiles()
    log = open_in(tmp_path / "log", files)
    compacted = plan_for(log).run(files)
    assert compacted.groups
    cleaned = list(Path(log.directory).glob("*.cleaned"))
    assert len(cleaned) == 3 * len(compacted.groups) + 2
    for path in cleaned:
        assert files._synced[path.stat().st_ino] == path.read_bytes()


# What a crash of Apache Kafka leaves


def compacted_copies(written: Path, tmp_path: Path) -> tuple[Path, Path, list[str]]:
    """The folder before and after, with the new segment's files of the first group as `.cleaned` beside the old ones."""
    folder, after = tmp_path / "before" / "orders-0", tmp_path / "after" / "orders-0"
    shutil.copytree(written, tmp_path / "before")
    log = open_in(tmp_path / "before")
    compacted = plan_for(log).run(RealFiles())
    shutil.copytree(folder, after)
    log._release("dead")
    assert compacted.groups
    (first, *others) = compacted.groups
    for group in others:
        for path in folder.glob(f"{file_name(group.base_offset, '')}*.cleaned"):
            path.unlink()
    return folder, after, [file_name(source.base_offset, "") for source in first.sources]


def rename(folder: Path, old: str, new: str, *suffixes: str) -> None:
    for path in folder.iterdir():
        if path.name.endswith(tuple(f"{suffix}{old}" for suffix in suffixes)):
            path.rename(folder / (path.name.removesuffix(old) + new))


def test_unstarted_swap_is_undone(written: Path, tmp_path: Path) -> None:
    folder, _, _ = compacted_copies(written, tmp_path)
    before = {path.name: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    rename(folder, ".cleaned", ".swap", ".log", ".index")  # the time index is still `.cleaned`
    open_in(tmp_path / "before").close()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".log"} == {
        name: data for name, data in before.items() if name.endswith(".log")
    }
    check(tmp_path / "before", left_in(open_in(written)), clean=True)


@pytest.mark.parametrize("deleted", range(4))
def test_started_swap_is_finished(written: Path, tmp_path: Path, deleted: int, caplog: pytest.LogCaptureFixture) -> None:
    folder, _, sources = compacted_copies(written, tmp_path)
    rename(folder, ".cleaned", ".swap", ".log", ".index", ".timeindex", ".txnindex")
    for source in sources[:deleted]:
        for path in list(folder.glob(f"{source}.*")):
            if not path.name.endswith((".swap", ".snapshot")):
                path.rename(folder / (path.name + ".deleted"))
    swapped = (folder / f"{sources[0]}.log.swap").read_bytes()
    with caplog.at_level(logging.WARNING):
        open_in(tmp_path / "before").close()
    assert (folder / f"{sources[0]}.log").read_bytes() == swapped
    assert "finished an interrupted compaction" in caplog.text
    assert [record for record in caplog.records if "index" in record.message and "finished" not in record.message] == []
    check(tmp_path / "before", left_in(open_in(written)), clean=True)


def test_swap_with_its_log_in_place_keeps_its_other_files(written: Path, tmp_path: Path) -> None:
    folder, _, sources = compacted_copies(written, tmp_path)
    rename(folder, ".cleaned", ".swap", ".log", ".index", ".timeindex", ".txnindex")
    for source in sources:
        for path in list(folder.glob(f"{source}.*")):
            if not path.name.endswith((".swap", ".snapshot")):
                path.unlink()
    rename(folder, ".swap", "", ".log")
    index = (folder / f"{sources[0]}.index.swap").read_bytes()
    assert index
    open_in(tmp_path / "before").close()
    assert (folder / f"{sources[0]}.index").read_bytes() == index
    check(tmp_path / "before", left_in(open_in(written)), clean=True)
