"""A log directory whose files are copied, put back and removed; whatever else somebody keeps in that folder is left alone.

What has not changed since stays where it is when a copy is put back. A file has not changed when its inode, size and both its times are
those that it had when its bytes were known to be the copy's, and when it had been written before the system's clock stood at the time of
its last change (`mtime < ctime`): whoever writes to a file sets both to one moment, so that one which was written since has other times,
however coarse the clock is. A file that was written at the very moment of the copy proves nothing, and is copied again.

Who is killed while a copy is put back finds a folder without metadata at the next start: a broker without topics, and no mixture. What
lies there is of no topic that it knows, and `clear` removes it.
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

from minibroker.cluster.replica_assignments import NAME as REPLICA_ASSIGNMENTS
from minibroker.storage.log_file_names import (
    CLEANED,
    DELETE_FOLDER,
    DELETED,
    STRAY_FOLDER,
    SWAP,
    delete_folder_name,
    parse_folder_name,
)

METADATA_TOPIC: Final = "__cluster_metadata"
_NAMES: Final = (".lock", ".kafka_cleanshutdown", "meta.properties", "bootstrap.checkpoint", REPLICA_ASSIGNMENTS)
_FILE: Final = re.compile(rf"({'|'.join(map(re.escape, _NAMES))}|[a-z-]+-offset-checkpoint)(\.tmp)?")
_PASSING: Final = (DELETED, CLEANED, ".tmp")  #: of no use to who starts, and gone at any moment: a file gets its name when it is whole
_AT_ONCE: Final = 1 << 20  #: bytes

_numbers = count(1)


class _Mark(NamedTuple):
    """By what a file is known to be as it was."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> _Mark:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    @property
    def is_proof(self) -> bool:
        """Whether a file that is written from now on cannot have it again."""
        return self.mtime_ns < self.ctime_ns


class FolderCopy:
    """The files of a log directory as they were, in a folder of their own, which is removed when nobody has this any more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = next(_numbers)
        self.files: dict[str, list[str]] = {}  #: names in each partition's folder; those of the log directory itself are in ""
        self.remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)


class BrokerFolder:
    """One of log.dirs. All but `copy` are called while nothing is open in it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._known: dict[str, tuple[_Mark, set[int]]] = {}  #: files, and numbers of the copies that have the same bytes
        self._copies = weakref.WeakValueDictionary[int, FolderCopy]()

    def clear(self) -> None:
        """Remove what a broker keeps here; partitions are put away as those of deleted topics, which the broker removes meanwhile."""
        self.take_metadata_away()
        for entry in _entries(self.path):
            self._put_away(entry)
        self._known.clear()

    def copy(self, target: Path) -> FolderCopy:
        """All files but those that are on their way in or out; nobody writes meanwhile but threads that replace a checkpoint."""
        made = FolderCopy(target)
        self._copies[made.number] = made
        for folder in ("", *(each.name for each in _entries(self.path) if _is_log(each))):
            (target / folder).mkdir(exist_ok=True)
            made.files[folder] = []
            for name in self._names(folder):
                if not name.endswith(_PASSING):
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

    # -- back, in three steps: with several directories each is done in all of them ------------------------------------------

    def take_metadata_away(self) -> None:
        """From now on nothing here counts."""
        for entry in _entries(self.path):
            if _is_metadata(entry.name):
                aside = self._aside(entry.name)
                os.rename(entry.path, aside)  # noqa: PTH104  a text, as all of these; all of it is gone at once
                shutil.rmtree(aside)

    def restore_logs(self, copy: FolderCopy) -> None:
        """Have the copy's files again, all but the metadata."""
        for entry in _entries(self.path):
            if entry.is_dir() and (entry.name not in copy.files or _is_compacted(entry.path)):
                self._put_away(entry)
        for folder in copy.files:
            if not _is_metadata(folder):
                self._restore(copy, folder)

    def restore_metadata(self, copy: FolderCopy) -> None:
        """What is here counts again."""
        for folder in copy.files:
            if _is_metadata(folder):
                aside = self._aside(folder)  # what is left of it, if anything, the next start removes
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
                    os.unlink(self.path + os.sep + path)  # noqa: PTH108  another file: who still has this one open does no harm
                found = _copy(f"{copy.folder}/{path}", self.path + os.sep + path)
                self._known[path] = _Mark.of(found), {copy.number}

    def _is_same(self, name: str, copy: FolderCopy) -> bool:
        mark, copies = self._known.get(name, (None, ()))
        return mark is not None and mark.is_proof and copy.number in copies and mark == self._mark(name)

    def _mark(self, name: str) -> _Mark:
        return _Mark.of(os.stat(self.path + os.sep + name))  # noqa: PTH116  as above

    # -- inside -----------------------------------------------------------------------------------------------------

    def _put_away(self, entry: os.DirEntry[str]) -> None:
        if not entry.is_dir() or entry.is_symlink():
            os.unlink(entry.path)  # noqa: PTH108  as above
        elif not entry.name.endswith(DELETE_FOLDER):  # those may be gone at any moment
            os.rename(entry.path, self._aside(entry.name))  # noqa: PTH104  as above

    def _aside(self, folder: str) -> str:
        return f"{self.path}/{delete_folder_name(folder, uuid4().hex)}"

    def _names(self, folder: str) -> Sequence[str]:
        if not folder:
            return [each.name for each in _entries(self.path) if not each.is_dir()]
        with os.scandir(f"{self.path}/{folder}") as found:
            return [each.name for each in found if each.is_file()]


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    """What a broker keeps in a log directory, and nobody else."""
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
    """Whether compaction is at work there, or was when the broker was left: it may go on in another process."""
    return any(name.endswith((CLEANED, SWAP)) for name in os.listdir(path))  # noqa: PTH208  a text


def _copy(source: str, target: str) -> os.stat_result:
    """A new file with the bytes and the time of another; what it is then."""
    opened = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            while data := os.read(opened, _AT_ONCE):
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
