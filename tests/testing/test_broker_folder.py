"""A log directory is copied and put back: to the byte, whatever was done meanwhile, and without touching what has not changed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from minibroker.testing import TEMPORARY, BrokerError, BrokerThread, broker_folder
from minibroker.testing.broker_folder import BrokerFolder, FolderCopy
from minibroker.testing.simulation.replica_placement import ASSIGNMENTS_FILE
from tests.support.soak import times

Tree = dict[str, bytes]
NAMES = ("00000000000000000000.log", "00000000000000000000.index", "leader-epoch-checkpoint")
FOLDERS = ("orders-0", "orders-1", "__cluster_metadata-0")
FOREIGN = {"notes.txt": b"mine", "pictures/cat.png": b"cat"}


def tree(path: Path) -> Tree:
    found = {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}
    return {name: data for name, data in found.items() if "-delete/" not in name}


def put(path: Path, files: Tree) -> None:
    for name, data in files.items():
        (path / name).parent.mkdir(exist_ok=True, parents=True)
        (path / name).write_bytes(data)


def restore(folder: BrokerFolder, copy: FolderCopy) -> None:
    folder.remove_metadata()
    folder.restore_logs(copy)
    folder.restore_metadata(copy)


class Changes:
    """What may be done to the files of a broker, as fast as it can be: the system's clock stands still between most of it."""

    def __init__(self, chance: random.Random, path: Path) -> None:
        self.chance = chance
        self.path = path

    def any_file(self) -> Path:
        found = self.path / self.chance.choice(FOLDERS) / self.chance.choice(NAMES)
        found.parent.mkdir(exist_ok=True)
        return found

    def bytes(self) -> bytes:
        return bytes([self.chance.randrange(256)]) * self.chance.choice((0, 1, 1, 1, 2, 5))

    def write(self) -> None:
        self.any_file().write_bytes(self.bytes())

    def append(self) -> None:
        with self.any_file().open("ab") as file:
            file.write(self.bytes())

    def overwrite_in_place(self) -> None:
        file = self.any_file()
        if file.exists():
            with file.open("r+b") as opened:
                opened.write(self.bytes()[: file.stat().st_size])

    def replace(self) -> None:
        file = self.any_file()
        other = file.with_name("other.tmp")
        other.write_bytes(self.bytes())
        other.replace(file)

    def remove(self) -> None:
        self.any_file().unlink(missing_ok=True)

    def set_time(self) -> None:
        file = self.any_file()
        if file.exists():
            os.utime(file, ns=(0, self.chance.choice((0, 1_700_000_000_000_000_000))))

    def do(self) -> None:
        steps: list[Callable[[], None]] = [self.write, self.append, self.overwrite_in_place, self.replace, self.remove, self.set_time]
        self.chance.choice(steps)()


@pytest.mark.parametrize("seed", range(times(10, soak=200)))
def test_restored_files_equal_the_copy(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "data"
    put(path, FOREIGN)
    chance = random.Random(seed)
    changes, folder = Changes(chance, path), BrokerFolder(str(path))
    copies: list[tuple[FolderCopy, Tree]] = []
    for number in range(60):
        kind = chance.random()
        if kind < 0.15:
            (target := tmp_path / f"copy-{number}").mkdir()
            copies.append((folder.copy(target), tree(path)))
        elif kind < 0.45 and copies:
            copy, expected = chance.choice(copies)
            restore(folder, copy)
            assert tree(path) == expected
        elif kind < 0.48:
            folder.clear()
            assert tree(path) == FOREIGN
        elif kind < 0.53 and copies:
            copies.remove(chance.choice(copies))
        else:
            changes.do()
    assert FOREIGN.items() <= tree(path).items()


def inodes(path: Path) -> dict[str, int]:
    return {str(each.relative_to(path)): each.stat().st_ino for each in path.rglob("*") if each.is_file() and "-delete/" not in str(each)}


def test_unchanged_files_are_kept_on_restore(tmp_path: Path) -> None:
    path = tmp_path / "data"
    put(path, {f"{folder}/{name}": b"1234" for folder in FOLDERS for name in NAMES})
    for name in tree(path):
        os.utime(path / name, ns=(0, 1_700_000_000_000_000_000))  # files written at the moment of the copy are copied again
    folder = BrokerFolder(str(path))
    (tmp_path / "copy").mkdir()
    copy = folder.copy(tmp_path / "copy")
    before = inodes(path)
    changed = path / "orders-0" / NAMES[0]
    changed.write_bytes(b"4321")
    (path / "orders-0" / NAMES[1]).rename(path / "orders-0" / "elsewhere")
    (path / "orders-2").mkdir()
    restore(folder, copy)
    assert tree(path) == {f"{each}/{name}": b"1234" for each in FOLDERS for name in NAMES}
    assert not (path / "orders-2").exists()
    moved = {name for name, inode in inodes(path).items() if before[name] != inode}
    assert {name for name in moved if not name.startswith("__cluster")} <= {f"orders-0/{name}" for name in NAMES[:2]}
    (path / "orders-1" / f"{NAMES[0]}.cleaned").touch()  # compaction may be at work there, in another process
    restore(folder, copy)
    assert len([*path.glob("orders-1.*-delete")]) == 1


def test_file_written_during_the_copy_is_not_reused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    old, new = (f"orders-0/{name}" for name in NAMES[:2])
    put(path, {old: b"1234", new: b"1234"})
    os.utime(path / old, ns=(0, 1_700_000_000_000_000_000))
    found = (path / new).stat()
    assert found.st_mtime_ns == found.st_ctime_ns  # a second write within one tick of the clock would not be seen
    folder = BrokerFolder(str(path))
    (tmp_path / "copy").mkdir()
    copy = folder.copy(tmp_path / "copy")
    before = inodes(path)
    with (path / new).open("rb"):  # or its inode might be given out again
        restore(folder, copy)
    assert inodes(path)[old] == before[old]
    assert inodes(path)[new] != before[new]


def test_a_checkpoint_that_is_being_replaced_is_copied_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, folder = tmp_path / "data", BrokerFolder(str(tmp_path / "data"))
    checkpoints = ("recovery-point-offset-checkpoint", "orders-0/leader-epoch-checkpoint")
    put(path, dict.fromkeys(checkpoints, b"old") | {f"{name}.tmp": b"n" for name in checkpoints} | FOREIGN)
    (tmp_path / "copy").mkdir()
    kept = folder.copy(tmp_path / "copy")
    assert tree(tmp_path / "copy") == dict.fromkeys(checkpoints, b"old")
    restore(folder, kept)
    assert tree(path) == dict.fromkeys(checkpoints, b"old") | FOREIGN
    put(path, {f"{name}.tmp": b"new" for name in checkpoints})
    real = BrokerFolder._names

    def names(self: BrokerFolder, of: str) -> Sequence[str]:
        """A thread has written all of it just behind this look."""
        found = real(self, of)
        for half_written in (path / of).glob("*.tmp"):
            half_written.replace(half_written.with_suffix(""))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(BrokerFolder, "_names", names)
        (tmp_path / "later").mkdir()
        later = folder.copy(tmp_path / "later")
    put(path, {f"{name}.tmp": b"n" for name in checkpoints})
    folder.clear()
    assert tree(path) == FOREIGN
    restore(folder, later)
    assert tree(path) == dict.fromkeys(checkpoints, b"new") | FOREIGN


def reassign(broker: BrokerThread, topic: str, replicas: list[int]) -> None:
    partition = TopicPartition(topic, 0)
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.alter_partition_reassignments({partition: replicas}) == {partition: None}
    assert broker.leaders.describe(topic, 0)["replicas"] == replicas


@pytest.mark.parametrize("place", ["temporary", "folder"])
def test_replicas_are_where_they_were_when_the_copy_was_made(tmp_path: Path, place: str) -> None:
    with BrokerThread(brokers=3, data_dir=TEMPORARY if place == "temporary" else tmp_path) as broker:
        assert broker.data_dir is not None
        file = broker.data_dir / ASSIGNMENTS_FILE
        broker.create_topic("prices")
        bare = broker.snapshot()
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("orders", num_partitions=1, replication_factor=1)])
        alone = broker.leaders.describe("orders", 0)["replicas"]
        assert len(alone) == 1
        kept = broker.snapshot()
        at_first = broker.leaders.describe("prices", 0)["replicas"]
        reassign(broker, "prices", [2])
        broker.delete_topic("orders")
        for _ in range(2):
            broker.restore(kept)
            assert broker.leaders.describe("orders", 0)["replicas"] == alone
            assert broker.leaders.describe("prices", 0)["replicas"] == at_first
            broker.reset()
            assert not file.exists()
        broker.restore(kept)
        assert file.exists()
        broker.restore(bare)
        assert not file.exists()


def test_copy_is_deleted_with_its_last_reference(tmp_path: Path) -> None:
    path = tmp_path / "data"
    put(path, {"orders-0/" + NAMES[0]: b"1234"})
    target = tmp_path / "copy"
    target.mkdir()
    copy = BrokerFolder(str(path)).copy(target)
    assert (target / "orders-0").is_dir()
    del copy
    assert not target.exists()


class Killed(BaseException):
    """As a SIGKILL: nothing of the process goes on."""


def test_kill_during_start_leaves_no_partial_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    with BrokerThread(data_dir=data, topics=["orders", "prices"]) as broker:
        broker.produce("orders", "one")
        folder = BrokerFolder(str(data))
        (tmp_path / "copy").mkdir()
        copy = folder.copy(tmp_path / "copy")
        broker.produce("orders", "two")
        broker.produce("prices", "1.20")
    real, left = broker_folder._copy, 0

    def copied(source: str, target: str) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        return real(source, target)

    monkeypatch.setattr(broker_folder, "_copy", copied)
    for left_at_first in range(2 * sum(map(len, copy.files.values()))):
        left = left_at_first
        try:
            restore(folder, copy)
        except Killed:
            assert not (data / "__cluster_metadata-0").exists()
        else:
            break
    assert left_at_first >= len(copy.files["__cluster_metadata-0"])
    folder.remove_metadata()
    with BrokerThread(data_dir=data) as broker:
        assert broker.topics() == []
        broker.reset()
        broker.create_topic("orders")
        assert broker.records("orders") == []
    left = 1_000_000
    restore(folder, copy)
    with BrokerThread(data_dir=data) as broker:
        assert broker.topics() == ["orders", "prices"]
        assert [record.text for record in broker.records("orders")] == ["one"]


@pytest.mark.parametrize("seeded", [False, True])
def test_full_disk_fails_the_snapshot_and_the_broker_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, seeded: bool) -> None:
    with BrokerThread(data_dir=tmp_path / "data", topics=["orders"] if seeded else []) as broker:
        broker.create_topic("prices")
        kept = broker.snapshot()
        broker.produce("prices", "1.20")

        def full(source: str, target: str) -> Any:
            raise OSError(28, "No space left on device", target)

        with monkeypatch.context() as patch:
            patch.setattr(broker_folder, "_copy", full)
            with pytest.raises(BrokerError, match=r"^restore: .*No space left on device"):
                broker.restore(kept)
            with pytest.raises(BrokerError, match=r"^snapshot: .*No space left on device"):
                broker.snapshot()
        assert broker.topics() == []
        broker.restore(kept)
        assert broker.records("prices") == []
