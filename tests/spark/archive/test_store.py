"""Runs become part of an archive whole or not at all: who dies at any step, and two jobs at once at any step of each other.

No Spark: a run's files are written by hand.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from minibroker.spark.archive import files as archive_files
from minibroker.spark.archive.files import LocalTableFiles
from minibroker.spark.archive.manifest import ArchivedFile, ArchivedRange, ArchivedTopic, Run
from minibroker.spark.archive.store import ArchiveStore
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange
from tests.spark.archive.mortal_files import Died, MortalTableFiles


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are of processes that die, not of power."""
    monkeypatch.setattr(archive_files, "_sync", lambda path: None)


TOTAL = 9  #: records of the topic
PER_RUN = 3
FOLDERS = ("topic=t/date=2026-01-01", "topic=t/date=2026-01-02")


def job(path: Path, files: LocalTableFiles, total: int = TOTAL) -> None:
    """What archive() does, in small: recover, and then run after run, from where the archive ends. Each record is a line of a file."""
    store = ArchiveStore(files, str(path))
    store.check_folder()
    store.open("parquet", "read_committed")
    store.recover()
    while (reached := reached_by(store)) < total:
        run_once(store, reached, min(reached + PER_RUN, total))


def reached_by(store: ArchiveStore) -> int:
    latest = store.latest()
    return (latest.topics[0].reached(0) or 0) if latest else 0


def run_once(store: ArchiveStore, start: int, end: int) -> None:
    attempt = store.begin()
    files = []
    for number, folder in enumerate(FOLDERS):
        staged = f"{folder}/part-{attempt.run_id}.parquet"
        data = "".join(f"{offset}\n" for offset in range(start, end) if offset % 2 == number).encode()
        store.files.write(f"{attempt.data}/{staged}", data)
        files.append(ArchivedFile(f"{folder}/part-{attempt.number}-{number}.parquet", staged, data.count(b"\n"), len(data)))
    topic = ArchivedTopic("t", "id", "cluster", "t", (PartitionRange("t", 0, 0, end),))
    ranges = (ArchivedRange("t", 0, start, end, end - start, start, end - 1),)
    store.commit(attempt, Run(attempt.number, attempt.run_id, "test", "read_committed", 1, 2, ranges, (), tuple(files), (topic,)))


def published(path: Path) -> list[int]:
    """The records that a reader sees who knows nothing of manifests."""
    return sorted(int(line) for file in path.glob("topic=*/*/[!.]*") for line in file.read_text().split())


def committed(path: Path) -> list[int]:
    """The records that a reader sees who knows the manifest."""
    store = ArchiveStore(LocalTableFiles(), str(path))
    places = [store.locate(run, file) for run in store.runs() for file in run.files]
    return sorted(int(line) for place in places for line in Path(place).read_text().split())


def assert_whole(path: Path, total: int = TOTAL) -> None:
    assert published(path) == committed(path) == [*range(total)]
    assert not list((path / "_minibroker" / "staging").iterdir())
    assert [run.number for run in ArchiveStore(LocalTableFiles(), str(path)).runs()] == [*range(1, len(list(runs(path))) + 1)]


def runs(path: Path) -> list[Path]:
    return list((path / "_minibroker" / "runs").iterdir())


def check(error: SourceError) -> None:
    """The words of a job that came too late."""
    assert "nothing of this run was kept, nothing is lost: run it again" in str(error)


def lives_of(tmp_path: Path) -> int:
    """How many changes a job makes that nothing happens to."""
    files = MortalTableFiles(1 << 30)
    job(tmp_path / "counted", files)
    return (1 << 30) - files.lives


def test_death_before_every_change_of_the_disk(tmp_path: Path) -> None:
    count = lives_of(tmp_path)
    assert count > 24
    for lives in range(count):
        path = tmp_path / str(lives)
        with pytest.raises(Died):
            job(path, MortalTableFiles(lives))
        if ArchiveStore(LocalTableFiles(), str(path)).is_there():
            seen, known = published(path), committed(path)
            assert known == [*range(len(known))]
            assert set(seen) <= set(known)
            assert len(known) % PER_RUN == 0
        job(path, LocalTableFiles())
        assert_whole(path)


def test_death_in_the_middle_of_the_recovery(tmp_path: Path) -> None:
    """Twice dead: the second time while it repairs what the first has left."""
    for first in range(8, 8 + 12):  # one run, from its first file to the end of its staging folder
        for second in range(8):
            path = tmp_path / f"{first}-{second}"
            with pytest.raises(Died):
                job(path, MortalTableFiles(first))
            with pytest.raises(Died):
                job(path, MortalTableFiles(second))
            job(path, LocalTableFiles())
            assert_whole(path)


def test_a_job_that_is_taken_over_at_every_step(tmp_path: Path) -> None:
    """Where there is no lock: another job recovers and archives between any two steps. One of them fails in one line; nothing is lost."""
    failed = 0
    for step in range(lives_of(tmp_path)):
        path = tmp_path / str(step)
        taken: list[int] = []

        def take_over(path: Path = path, taken: list[int] = taken) -> None:
            taken.append(1)
            job(path, LocalTableFiles())

        try:
            job(path, MortalTableFiles(step, take_over))
        except SourceError as error:
            failed += 1
            check(error)
        assert taken
        job(path, LocalTableFiles())
        assert_whole(path)
    assert failed > 3


def test_only_a_recovery_between_two_steps(tmp_path: Path) -> None:
    """As above, but the other job archives nothing: what is committed at the last moment must not go with what is removed."""
    for step in range(lives_of(tmp_path)):
        path = tmp_path / str(step)

        def recover(path: Path = path) -> None:
            ArchiveStore(LocalTableFiles(), str(path)).recover()

        try:
            job(path, MortalTableFiles(step, recover))
        except SourceError as error:
            check(error)
        job(path, LocalTableFiles())
        assert_whole(path)


def test_a_recovery_that_is_interrupted_by_its_victim(tmp_path: Path) -> None:
    """The owner of an attempt commits while somebody is about to remove it: at every step of the removal."""
    for step in range(4):
        path = tmp_path / str(step)
        store = ArchiveStore(LocalTableFiles(), str(path))
        store.open("parquet", "read_committed")
        finished: list[str] = []

        class Late(LocalTableFiles):
            """Lets the recovery run up to `step` before it commits."""

            def commit(self, source: str, target: str, path: Path = path, step: int = step, finished: list[str] = finished) -> None:
                commit = super().commit

                def now() -> None:
                    commit(source, target)
                    finished.append("committed")

                if "runs" in target and not finished:
                    finished.append("began")
                    try:
                        ArchiveStore(MortalTableFiles(step, now), str(path)).recover()
                    except FileNotFoundError:
                        finished.append("too late")
                    if "committed" in finished:
                        return
                commit(source, target)

        try:
            run_once(ArchiveStore(Late(), str(path)), 0, PER_RUN)
        except SourceError as error:
            check(error)
        job(path, LocalTableFiles())
        assert_whole(path)


def test_an_attempt_that_was_buried_and_written_to_again(tmp_path: Path) -> None:
    """Its driver died, its Spark did not; and who buried it died before all of it was removed."""
    store = ArchiveStore(LocalTableFiles(), str(tmp_path))
    store.open("parquet", "read_committed")
    attempt = store.begin()
    folder = Path(attempt.folder)
    for data in (folder.with_name(f"dead-{folder.name}") / "data", folder / "data"):
        data.mkdir(parents=True)
        (data / "x").write_bytes(b"x")
    assert set(store.recover().removed) == {1}
    job(tmp_path, LocalTableFiles())
    assert_whole(tmp_path)


def test_two_jobs_on_one_machine(tmp_path: Path) -> None:
    files = LocalTableFiles()
    with (
        files.lock(f"{tmp_path}/lock"),
        pytest.raises(SourceError, match=r"another job \(process \d+\) is writing"),
        LocalTableFiles().lock(f"{tmp_path}/lock"),
    ):
        pass
    with files.lock(f"{tmp_path}/lock"):
        pass


def test_a_file_system_without_links_and_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(fcntl, "flock", refuse)
    files = LocalTableFiles()
    with files.lock(f"{tmp_path}/archive/_minibroker/lock"):
        job(tmp_path / "archive", files)
    assert_whole(tmp_path / "archive")
    files.write(f"{tmp_path}/x", b"x")
    with pytest.raises(FileExistsError):
        files.commit(f"{tmp_path}/x", str(runs(tmp_path / "archive")[0]))


def test_folders_that_are_no_archives(tmp_path: Path) -> None:
    store = ArchiveStore(LocalTableFiles(), str(tmp_path))
    with pytest.raises(SourceError, match="there is no archive at"):
        store.identity()
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "part-0.parquet").touch()
    with pytest.raises(SourceError, match=r"not empty and not an archive \(it holds _temporary, part-0.parquet\)"):
        store.open("parquet", "read_committed")
    with pytest.raises(SourceError, match="is a file"):
        ArchiveStore(LocalTableFiles(), f"{tmp_path}/part-0.parquet").check_folder()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_temporary", "part-0.parquet"]


def test_an_archive_stays_what_it_is(tmp_path: Path) -> None:
    store = ArchiveStore(LocalTableFiles(), str(tmp_path))
    made = store.open("parquet", "read_committed")
    assert store.open("parquet", "read_committed") == made
    with pytest.raises(SourceError, match="is in parquet, not in delta"):
        store.open("delta", "read_committed")
    with pytest.raises(SourceError, match="was created with read_committed"):
        store.open("parquet", "read_uncommitted")


def test_a_damaged_manifest(tmp_path: Path) -> None:
    job(tmp_path, LocalTableFiles())
    store = ArchiveStore(LocalTableFiles(), str(tmp_path))
    third = tmp_path / "_minibroker" / "runs" / f"{3:020d}.json"
    third.write_text(third.read_text()[:50])
    with pytest.raises(SourceError, match=r"0003.json is damaged"):
        store.latest()
    third.write_text(json.dumps({"format_version": 2}))
    with pytest.raises(SourceError, match="has format version 2; this minibroker knows 1"):
        store.latest()
    (tmp_path / "_minibroker" / "runs" / f"{2:020d}.json").unlink()
    with pytest.raises(SourceError, match=r"0002.json is missing"):
        store.runs()


def test_a_file_that_somebody_else_removed(tmp_path: Path) -> None:
    files = MortalTableFiles(1 << 30)
    job(tmp_path / "counted", files)
    for lives in range(1 << 30):  # up to the first death between a commit and the end of its publication
        path = tmp_path / str(lives)
        with pytest.raises(Died):
            job(path, MortalTableFiles(lives))
        store = ArchiveStore(LocalTableFiles(), str(path))
        if store.unpublished() and len(published(path)) > 0:
            break
    next(path.glob("topic=*/*/*")).unlink()
    with pytest.raises(SourceError, match="another program has changed"):
        store.recover()
