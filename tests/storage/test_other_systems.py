"""What differs on macOS and Windows, as far as Linux can show it: the system calls are replaced by ones with the rules of the other."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from minibroker.cli import serve
from minibroker.errors import ConfigurationError
from minibroker.storage.directory_files import DirectoryLock
from minibroker.storage.files import APPEND, RealFiles, read_preallocated, sync_to_drive
from minibroker.testing.memory_files import MemoryFiles


def refuse(number: int) -> Callable[..., int]:
    def call(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return call


class LocksOfMacOS:
    """One table for both kinds of lock: a flock belongs to an open file, a record lock to the process, and they exclude each other."""

    def __init__(self) -> None:
        self._owners: dict[int, object] = {}  #: by inode

    def flock(self, descriptor: int, operation: int) -> None:
        self._take(descriptor, ("file", descriptor))

    def lockf(self, descriptor: int, operation: int) -> None:
        self._take(descriptor, "process")

    def _take(self, descriptor: int, owner: object) -> None:
        if self._owners.setdefault(os.fstat(descriptor).st_ino, owner) != owner:
            raise OSError(errno.EAGAIN, "locked")


def test_a_directory_can_be_locked_where_both_kinds_of_lock_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "flock", (locks := LocksOfMacOS()).flock)
    monkeypatch.setattr(fcntl, "lockf", locks.lockf)
    lock = DirectoryLock(RealFiles(), str(tmp_path / ".lock"))
    with pytest.raises(ConfigurationError, match="another broker"):
        DirectoryLock(RealFiles(), str(tmp_path / ".lock"))
    lock.release()


def test_a_sync_reaches_the_drive_of_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda descriptor, command: calls.append(command))
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append("fsync"))
    sync_to_drive(1)
    assert calls == [51]

    monkeypatch.setattr(fcntl, "fcntl", refuse(errno.ENOTSUP))  # a network drive
    sync_to_drive(1)
    assert calls == [51, "fsync"]

    monkeypatch.setattr(fcntl, "fcntl", refuse(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        sync_to_drive(1)
    assert calls == [51, "fsync"], "a failed sync is not tried in another way"


def test_a_preallocated_file_is_read_where_holes_cannot_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = RealFiles()
    path = str(tmp_path / "index")
    descriptor = files.open(path, APPEND)
    files.write(descriptor, b"x" * 100)
    files.truncate(descriptor, 1000)
    files.close(descriptor)
    monkeypatch.setattr(os, "lseek", refuse(errno.EINVAL))
    data, size = read_preallocated(files, path, chunk_size=100)
    assert (bytes(data), size) == (b"x" * 100 + bytes(900), 1000)
    monkeypatch.setattr(os, "lseek", refuse(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        read_preallocated(files, path, chunk_size=100)


def test_the_memory_of_a_system_that_does_not_report_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(os.sysconf_names, "SC_AVPHYS_PAGES")
    total, free = MemoryFiles().volume("/")
    assert total == free > 0


@pytest.mark.parametrize(("hard", "greatest", "soft"), [(resource.RLIM_INFINITY, 10_240, 10_240), (4096, 10_240, 4096), (1024, 1024, 256)])
def test_open_files_are_raised_as_far_as_the_system_accepts(hard: int, greatest: int, soft: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = SimpleNamespace(now=(256, hard))

    def setrlimit(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] > greatest or greatest == 1024:
            raise ValueError("current limit exceeds maximum limit")
        limits.now = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits.now)
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    serve._raise_descriptor_limit()
    assert limits.now == (soft, hard)


#: Windows without Windows: its modules and calls are missing, and the libraries believe in Linux.
WINDOWS = """
import asyncio, os, shutil, subprocess, sys, click
for name in ("fcntl", "resource", "uvloop"):
    sys.modules[name] = None
for name in "pread sendfile fork geteuid uname statvfs O_CLOEXEC O_DIRECTORY sysconf nice sched_getaffinity".split():
    delattr(os, name)
sys.platform = "win32"
"""


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["topics", "list"]])
def test_commands_name_wsl_on_windows(words: list[str], tmp_path: Path) -> None:
    code = WINDOWS + "from minibroker.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == "Error: minibroker does not run on Windows itself: use WSL 2 or a container.\n"
    assert done.returncode == 1


def test_a_broker_in_a_test_names_wsl_on_windows() -> None:
    code = WINDOWS + "from minibroker.testing import BrokerThread"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "ImportError: minibroker does not run on Windows itself: use WSL 2 or a container"


def test_pytest_loads_the_plugin_on_windows() -> None:
    code = WINDOWS + "import minibroker, minibroker.testing.plugin; print('loaded')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("loaded\n", "")
