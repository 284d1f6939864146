"""MemoryFiles behaves as the file system of the machine does: every test runs on both."""

from __future__ import annotations

import errno
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.errors import ConfigurationError
from minibroker.storage.directory_files import DirectoryLock
from minibroker.storage.file_slice import FileSlice
from minibroker.storage.files import APPEND, READ_ONLY, REPLACE, Files, RealFiles, read_all, read_preallocated, replace_file
from minibroker.testing.memory_files import MemoryFiles
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.committed_records import read_committed

Place = tuple[Files, str]


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    files: Files = RealFiles() if request.param == "real" else MemoryFiles()
    folder = f"{tmp_path}/logs"
    files.make_directory(folder)
    yield files, folder
    with pytest.raises(OSError, match="descriptor") as caught:
        files.close(999_999)
    assert caught.value.errno == errno.EBADF


def fails(code: int, call: Any, *arguments: Any) -> None:
    with pytest.raises(OSError, match=r"Errno") as caught:
        call(*arguments)
    assert caught.value.errno == code


def test_bytes_are_appended_read_cut_and_replaced(place: Place) -> None:
    files, folder = place
    path = f"{folder}/a.log"
    fails(errno.ENOENT, files.open, path, READ_ONLY)
    descriptor = files.open(path, APPEND)
    assert files.write(descriptor, memoryview(b"hello world")) == 11
    other = files.open(path, APPEND)
    files.write(other, b"!")
    reader = files.duplicate(descriptor)
    files.close(descriptor)
    fails(errno.EBADF, files.read_at, descriptor, 1, 0)
    assert files.read_at(reader, 100, 6) == b"world!"
    assert files.read_at(reader, 2, 100) == b""
    assert files.size(path) == 12
    files.truncate(other, 5)
    assert read_all(files, path) == b"hello"
    files.truncate(other, 7)
    assert read_all(files, path) == b"hello\0\0"
    files.sync(other)
    replace_file(files, path, b"new", sync=True)
    assert files.read_at(reader, 100, 0) == b"hello\0\0"  # the old file lives as long as somebody has it
    assert read_preallocated(files, path) == (bytearray(b"new"), 3)
    emptied = files.open(path, REPLACE)
    assert files.size(path) == 0
    assert files.next_data(emptied, 0) is None
    for each in (other, reader, emptied):
        files.close(each)


def test_names_move_and_go(place: Place) -> None:
    files, folder = place
    files.make_directory(f"{folder}/orders-0/deep")
    files.make_directory(f"{folder}/orders-0")
    for name in ("a", "b"):
        files.close(files.open(f"{folder}/orders-0/{name}", APPEND))
    assert sorted(files.names(f"{folder}/orders-0")) == ["a", "b", "deep"]
    fails(errno.ENOTEMPTY, files.remove_directory, f"{folder}/orders-0")
    files.rename(f"{folder}/orders-0/a", f"{folder}/orders-0/b")
    files.rename(f"{folder}/orders-0", f"{folder}/orders-0-delete")
    assert not files.exists(f"{folder}/orders-0")
    assert sorted(files.names(f"{folder}/orders-0-delete")) == ["b", "deep"]
    fails(errno.ENOENT, files.names, f"{folder}/orders-0")
    fails(errno.ENOENT, files.rename, f"{folder}/none", f"{folder}/other")
    fails(errno.ENOENT, files.open, f"{folder}/none/file", APPEND)
    fails(errno.ENOENT, files.size, f"{folder}/none")
    fails(errno.EISDIR, files.open, f"{folder}/orders-0-delete", APPEND)
    files.make_directory(f"{folder}/full/inside")
    fails(errno.ENOTEMPTY, files.rename, f"{folder}/orders-0-delete", f"{folder}/full")
    fails(errno.ENOTDIR, files.rename, f"{folder}/full", f"{folder}/orders-0-delete/b")
    fails(errno.EISDIR, files.rename, f"{folder}/orders-0-delete/b", f"{folder}/full")
    files.remove(f"{folder}/orders-0-delete/b")
    files.remove(f"{folder}/orders-0-delete/b")
    files.remove_directory(f"{folder}/orders-0-delete/deep")
    files.remove_directory(f"{folder}/orders-0-delete")
    files.remove_directory(f"{folder}/orders-0-delete")
    assert files.names(folder) == ["full"]


def test_times_and_volume(place: Place) -> None:
    files, folder = place
    files.close(files.open(f"{folder}/a", APPEND))
    files.set_modified_ms(f"{folder}/a", 1_600_000_000_123)
    assert files.modified_ms(f"{folder}/a") == 1_600_000_000_123
    size, usable = files.volume(folder)
    assert size > usable > 0


def test_a_directory_is_locked_once(place: Place) -> None:
    files, folder = place
    lock = DirectoryLock(files, f"{folder}/.lock")
    with pytest.raises(ConfigurationError, match="another broker uses"):
        DirectoryLock(files, f"{folder}/.lock")
    lock.release()
    DirectoryLock(files, f"{folder}/.lock").release()


def test_a_slice_goes_to_a_socket(place: Place) -> None:
    files, folder = place
    handle = files.handles.handle(f"{folder}/a.log", APPEND)
    data = bytes(range(256)) * 4096
    files.write(handle.opened(), data)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        piece = FileSlice(files, handle, 100, 500_000)
        sent, got = 0, b""
        sent = piece.send_to(ours.fileno())
        assert 0 < sent <= 500_000
        assert piece.read() == data[100 + sent : 500_100]
        while len(got) < sent:
            got += theirs.recv(1 << 20)
        assert got == data[100 : 100 + sent]
        while piece.send_to(ours.fileno()):
            pass  # until the socket is full: nothing is raised
    handle.close()


def test_a_copy_is_another_file_system() -> None:
    files = MemoryFiles()
    files.make_directory("/logs/a")
    descriptor = files.open("/logs/a/x", APPEND)
    files.write(descriptor, b"one")
    copy = files.copy()
    files.write(descriptor, b"two")
    files.remove("/logs/a/x")
    assert read_all(copy, "/logs/a/x") == b"one"
    assert not files.exists("/logs/a/x")


def test_pickled_it_is_the_same_files_with_other_handles() -> None:
    files = MemoryFiles()
    files.make_directory("/logs")
    files.close(files.open("/logs/x", APPEND))
    twin = pickle.loads(pickle.dumps(files))  # noqa: S301  our own
    assert twin.names("/logs") == ["x"]
    assert twin.handles is not files.handles


def test_a_whole_broker_in_memory_survives_its_death(tmp_path: Path) -> None:
    """Segments roll, retention deletes, compaction swaps, a topic is deleted, the next start recovers, without calls to the disk."""
    files = MemoryFiles()
    folder = tmp_path / "not-there"
    settings = {"log.segment.bytes": "1000", "log.cleaner.min.cleanable.ratio": "0.01"}
    broker = BrokerInMemory({"orders": 2, "gone": 1}, settings, folder=folder, files=files)
    broker.cluster.configs.alter_topic("orders", {"cleanup.policy": "compact"})
    for _ in range(5):
        for first in range(0, 60, 20):
            broker.append("orders", 0, records(20, first=first))
    broker.cluster.delete_topic("gone")
    broker.cluster.logs.cleaner.compact([broker.cluster.partition("orders", 0).log])
    log = broker.cluster.partition("orders", 0).log
    assert sorted(files.names(f"{folder}/orders-0")) != []
    end = log.log_end_offset
    broker.cluster.close(clean=False)
    again = BrokerInMemory(config=settings, folder=folder, files=files, clock=broker.clock)
    found = read_committed(again, "orders", 0)
    assert set(found.values()) == {b"v%d" % number for number in range(60)}
    assert 60 <= len(found) < 5 * 60
    assert again.cluster.partition("orders", 0).log.log_end_offset == end
    assert "gone" not in again.cluster.topics
    assert not folder.exists()
