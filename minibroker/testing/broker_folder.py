"""Copy, restore and remove the broker's files in a log directory.

Other files in that folder are left alone.

A restore copies only files that have changed. A file is unchanged if its inode, size, mtime and
ctime are those that it had when its bytes were known to equal the copy's, and if its mtime was then
before its ctime. A write sets both times to the same moment, so that a file that was written since
has other times, however coarse the clock is. A file that was written at the very moment of the copy
is copied again.

If the process is killed during a restore, the folder has no metadata at the next start: the broker
has no topics, rather than a mixture. `clear` removes the files left there.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from minibroker.storage.log_file_names import (
    CLEANED,
    DELETE_FOLDER,
    DELETED,
    STRAY_FOLDER,
    SWAP,
    delete_folder_name,
    parse_folder_name,
)
from minibroker.testing.simulation.replica_placement import ASSIGNMENTS_FILE

METADATA_TOPIC: Final = "__cluster_metadata"
_NAMES: Final = (".lock", ".kafka_cleanshutdown", "meta.properties", "bootstrap.checkpoint", ASSIGNMENTS_FILE)
_FILE: Final = re.compile(rf"({'|'.join(map(re.escape, _NAMES))}|[a-z-]+-offset-checkpoint)(\.tmp)?")
_TRANSIENT: Final = (
    DELETED,
    CLEANED,
    ".tmp",
)  #: useless for a start, and removed at any moment: a file gets its final name when it is complete
_CHUNK_SIZE: Final = 1 << 20  #: bytes

_numbers = count(1)


class _Mark(NamedTuple):
    """What identifies a file and its state."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Mark:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_proof(self) -> bool:
        """Whether no later write can produce the same mark."""
        return self.mtime_ns < self.ctime_ns


class FolderCopy:
    """A copy of the files of a log directory in its own folder, which is removed with the last reference to this object."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = next(_numbers)
        self.files: dict[str, list[str]] = {}  #: names of files by partition folder; "": in the log directory itself
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class BrokerFolder:
    """One of log.dirs. No file in it is open during calls, except for `copy`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: dict[str, tuple[_Mark, set[int]]] = {}  #: files, with the numbers of the copies that have the same bytes
        self._copies = weakref.WeakValueDictionary[int, FolderCopy]()

    def clear(self) -> None:
        """Remove the broker's files.

        Partition folders are renamed as those of deleted topics, which the broker removes later.
        """
        self.remove_metadata()
        for entry in _entries(self.path):
            self._set_aside(entry)
        self._known.clear()

    def copy(self, target: Path) -> FolderCopy:
        """Copy all files except transient ones.

        Only threads that replace a checkpoint may write meanwhile.
        """
        made = FolderCopy(target)
        self._copies[made.number] = made
        for folder in ("", *(each.name for each in _entries(self.path) if _is_log(each))):
            (target / folder).mkdir(exist_ok=True)
            made.files[folder] = []
            for name in self._names(folder):
                if not name.endswith(_TRANSIENT):
                    made.files[folder].append(name)
                    self._copy_out(f"{folder}/{name}", made)
        return made

    def _copy_out(self, name: str, made: FolderCopy) -> None:
        mark = self._mark(name)
        _copy(self.path + os.sep + name, f"{made.folder}/{name}")
        if mark == self._mark(name):
            known = self._known.get(name)
            copies = known[1].intersection(self._copies) if known is not None and known[0] == mark else set[int]()
            self._known[name] = mark, copies | {made.number}

    # Restore, in three steps: each is done in all log directories before the next one

    def remove_metadata(self) -> None:
        """Remove the metadata log: a start then finds no topics."""
        for entry in _entries(self.path):
            if _is_metadata(entry.name):
                aside = self._aside(entry.name)
                os.rename(entry.path, aside)  # noqa: PTH104  paths are strings here; the rename removes everything at once
                shutil.rmtree(aside)

    def restore_logs(self, copy: FolderCopy) -> None:
        """Restore all files of a copy except the metadata."""
        for entry in _entries(self.path):
            if entry.is_dir() and (entry.name not in copy.files or _is_compacted(entry.path)):
                self._set_aside(entry)
        for folder in copy.files:
            if not _is_metadata(folder):
                self._restore(copy, folder)

    def restore_metadata(self, copy: FolderCopy) -> None:
        """Restore the metadata, which make the other files count."""
        for folder in copy.files:
            if _is_metadata(folder):
                aside = self._aside(folder)  # if the process is killed here, the next start removes it
                os.mkdir(aside)  # noqa: PTH102  as above
                for name in copy.files[folder]:
                    _copy(f"{copy.folder}/{folder}/{name}", f"{aside}/{name}")
                os.rename(aside, f"{self.path}/{folder}")  # noqa: PTH104  as above

    def _restore(self, copy: FolderCopy, folder: str) -> None:
        os.makedirs(f"{self.path}/{folder}", exist_ok=True)  # noqa: PTH103  as above
        there = set(self._names(folder))
        for name in there.difference(copy.files[folder]):
            os.unlink(f"{self.path}/{folder}/{name}")  # noqa: PTH108  as above
        for name in copy.files[folder]:
            path = f"{folder}/{name}"
            if name not in there or not self._is_same(path, copy):
                if name in there:
                    os.unlink(self.path + os.sep + path)  # noqa: PTH108  a new file: open descriptors of the old one do no harm
                found = _copy(f"{copy.folder}/{path}", self.path + os.sep + path)
                self._known[path] = _Mark.of(found), {copy.number}

    def _is_same(self, name: str, copy: FolderCopy) -> bool:
        mark, copies = self._known.get(name, (None, ()))
        return mark is not None and mark.is_proof and copy.number in copies and mark == self._mark(name)

    def _mark(self, name: str) -> _Mark:
        return _Mark.of(os.stat(self.path + os.sep + name))  # noqa: PTH116  as above

    def _set_aside(self, entry: os.DirEntry[str]) -> None:
        if not entry.is_dir() or entry.is_symlink():
            os.unlink(entry.path)  # noqa: PTH108  as above
        elif not entry.name.endswith(DELETE_FOLDER):  # the broker removes these
            os.rename(entry.path, self._aside(entry.name))  # noqa: PTH104  as above

    def _aside(self, folder: str) -> str:
        return f"{self.path}/{delete_folder_name(folder, uuid4().hex)}"

    def _names(self, folder: str) -> Sequence[str]:
        if not folder:
            return [each.name for each in _entries(self.path) if not each.is_dir()]
        with os.scandir(f"{self.path}/{folder}") as found:
            return [each.name for each in found if each.is_file()]


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a log directory that belong to a broker."""
    with os.scandir(path) as found:
        yield from [each for each in found if _is_ours(each)]


def _is_ours(entry: os.DirEntry[str]) -> bool:
    if not entry.is_dir():
        return _FILE.fullmatch(entry.name) is not None
    return entry.name.endswith((DELETE_FOLDER, STRAY_FOLDER)) or _is_log(entry)


def _is_log(entry: os.DirEntry[str]) -> bool:
    try:
        parse_folder_name(entry.name)
    except ValueError:
        return False
    return entry.is_dir()


def _is_metadata(folder: str) -> bool:
    return folder.rpartition("-")[0] == METADATA_TOPIC


def _is_compacted(path: str) -> bool:
    """Whether compaction runs there, or was interrupted: it may continue in another process."""
    return any(name.endswith((CLEANED, SWAP)) for name in os.listdir(path))  # noqa: PTH208  a string


def _copy(source: str, target: str) -> os.stat_result:
    """Copy a file with its times, and return the stat of the new one."""
    opened = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            while data := os.read(opened, _CHUNK_SIZE):
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(made, rest) :]
            found = os.fstat(opened)
            os.utime(made, ns=(found.st_atime_ns, found.st_mtime_ns))
            return os.fstat(made)
        finally:
            os.close(made)
    finally:
        os.close(opened)
