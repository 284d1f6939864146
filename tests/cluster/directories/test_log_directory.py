"""Log directories: who may use them, what they remember, and what is refused with one clear line."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.directories.log_directory import Checkpoint, LogDirectory, open_directories, random_uuid
from minibroker.errors import ConfigurationError
from minibroker.storage.directory_files import format_uuid
from minibroker.storage.files import RealFiles


def opened(*paths: Path, cluster_id: str | None = None, node_id: int = 1) -> list[LogDirectory]:
    return open_directories(RealFiles(), [str(path) for path in paths], cluster_id=cluster_id, node_id=node_id, clock=ManualClock())


def release(directories: list[LogDirectory]) -> None:
    for directory in directories:
        directory.release()


def test_first_start_writes_meta_properties(tmp_path: Path) -> None:
    first, second = directories = opened(tmp_path / "a", tmp_path / "b")
    release(directories)
    lines = (tmp_path / "a" / "meta.properties").read_text().splitlines()
    assert sorted(line for line in lines if not line.startswith("#")) == [
        f"cluster.id={first.cluster_id}",
        f"directory.id={format_uuid(first.directory_id)}",
        "node.id=1",
        "version=1",
    ]
    assert first.cluster_id == second.cluster_id
    assert first.directory_id != second.directory_id
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", first.cluster_id)


def test_cluster_and_directory_ids_are_kept(tmp_path: Path) -> None:
    (first,) = opened(tmp_path / "a")
    first.release()
    again, added = directories = opened(tmp_path / "a", tmp_path / "b")
    release(directories)
    assert (again.cluster_id, again.directory_id) == (first.cluster_id, first.directory_id)
    assert added.cluster_id == first.cluster_id


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ("version=1\ncluster.id=other\nnode.id=1\n", "belongs to cluster other, but this broker is configured for cluster mine"),
        ("version=1\ncluster.id=mine\nnode.id=7\n", "belongs to node 7, but this broker is configured as node 1"),
        ("version=9\ncluster.id=mine\nnode.id=1\n", "version '9' is not known"),
        ("version=1\ncluster.id=mine\nnode.id=one\n", "node.id 'one' is not a number"),
        ("version=1\ncluster.id=mine\nnode.id=1\ndirectory.id=short\n", "directory.id=short is no id"),
        ("", "it has no version"),
    ],
)
def test_directory_of_another_cluster_or_node_is_refused(tmp_path: Path, properties: str, line: str) -> None:
    file = tmp_path / "meta.properties"
    file.write_text(properties)
    marker = tmp_path / ".kafka_cleanshutdown"
    marker.write_text("{}")

    with pytest.raises(ConfigurationError, match=re.escape(line)):
        opened(tmp_path, cluster_id="mine")

    assert file.read_text() == properties
    assert marker.exists()
    file.unlink()
    release(opened(tmp_path, cluster_id="mine"))  # the lock was released


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(f"version=1\ncluster.id={name}\nnode.id=1\n")
    with pytest.raises(ConfigurationError, match="belong to different clusters"):
        opened(tmp_path / "a", tmp_path / "b")


def test_copied_directory_is_refused(tmp_path: Path) -> None:
    release(opened(tmp_path / "a"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.properties").write_bytes((tmp_path / "a" / "meta.properties").read_bytes())
    with pytest.raises(ConfigurationError, match="one is a copy of the other"):
        opened(tmp_path / "a", tmp_path / "b")


def test_directory_in_use_by_another_broker_is_refused(tmp_path: Path) -> None:
    (first,) = opened(tmp_path)
    with pytest.raises(ConfigurationError, match="another broker uses this log directory"):
        opened(tmp_path)
    first.release()
    release(opened(tmp_path))


def test_path_that_is_not_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigurationError, match=r"log.dirs: cannot use .*file: "):
        opened(tmp_path / "file")


def test_unreadable_checkpoints_mean_full_recovery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"\xff garbage")
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (directory,) = opened(tmp_path)
    directory.release()
    assert (directory.was_clean, directory.recovery_points) == (False, {})
    assert "recovery-point-offset-checkpoint" in caplog.text


def test_random_ids_are_not_reserved_and_do_not_start_with_a_dash() -> None:
    ids = {random_uuid() for _ in range(500)}
    assert len(ids) == 500
    assert not any(format_uuid(value).startswith("-") for value in ids)
    assert not ids & {UUID(int=number) for number in range(100)}


def test_late_worker_does_not_overwrite_the_last_checkpoint(tmp_path: Path) -> None:
    (directory,) = opened(tmp_path)
    old = Checkpoint(1, {("orders", 0): 1}, {("orders", 0): 1}, {("orders", 0): 1})
    new = Checkpoint(2, {("orders", 0): 9}, {("orders", 0): 9}, {("orders", 0): 9})
    directory.write_checkpoints(new, is_last=True)
    directory.write_checkpoints(old)
    directory.release()
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 9\n"


def test_checkpoint_of_one_file_does_not_change_the_others(tmp_path: Path) -> None:
    (directory,) = opened(tmp_path)
    known = Checkpoint(1, {("orders", 0): 1}, {("orders", 0): 1}, {("orders", 0): 1})
    directory.write_checkpoints(known)
    directory.write_checkpoints(Checkpoint(2, {("orders", 0): 9}, None, None))
    assert directory.checkpoint(("recovery-point-offset-checkpoint",))[2:] == (None, None)
    directory.release()
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 9\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
