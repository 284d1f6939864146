"""A file system in the memory of this process, for brokers under test: it ends with the process and leaves nothing to remove.

Descriptors are numbers that no system call knows; only this object can use them. Nothing is synced,
since nothing survives. Sending to a socket is a `write` of as much as the socket takes at once,
where real files use sendfile.

    files = MemoryFiles()
    copy = files.copy()          the files as they are now, for another broker; descriptors stay behind

Threads of one process may share it, and a copy made by pickle in the same process has the same
files and its own pool of handles. Another process cannot see them (`is_shared`).
"""

from __future__ import annotations

import errno
import os
import time
from _thread import allocate_lock
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from minibroker.storage.files import APPEND, READ_ONLY, REPLACE, HandlePool

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAX_OPEN_FILES: Final = 16_384  #: open handles cost next to nothing here
_SENT_AT_ONCE: Final = 1 << 20  #: bytes: more than a socket takes
_FIRST_DESCRIPTOR: Final = 1 << 40  #: beyond any real descriptor, so that a system call fails on it


class _File:
    """The bytes of a file, independent of its names; `is_locked` while a descriptor holds its lock."""

    __slots__ = ("data", "is_locked", "modified_ms")

    def __init__(self, data: bytes = b"", modified_ms: int | None = None) -> None:
        self.data = bytearray(data)
        self.modified_ms = time.time_ns() // 1_000_000 if modified_ms is None else modified_ms
        self.is_locked = False


_Folder = dict[str, "_File | _Folder"]


class _Opened:
    """The file of a descriptor; `has_lock` when this descriptor locked it."""

    __slots__ = ("file", "has_lock")

    def __init__(self, file: _File) -> None:
        self.file = file
        self.has_lock = False


class _Tree:
    """Folders and descriptors; shared by all MemoryFiles that are one file system."""

    def __init__(self) -> None:
        self.root: _Folder = {}
        self.opened: dict[int, _Opened] = {}
        self.descriptors = count(_FIRST_DESCRIPTOR)
        self.lock = allocate_lock()  #: held while names change
        self.number = next(_numbers)
        _trees[self.number] = self


_numbers = count(1)
_trees: WeakValueDictionary[int, _Tree] = WeakValueDictionary()


class MemoryFiles:
    """The in-memory implementation of `Files`, which documents each method."""

    is_shared: Final = False
    sends_in_threads: Final = False

    def __init__(self, tree: _Tree | None = None) -> None:
        self._tree = tree or _Tree()
        self._opened = self._tree.opened
        self.handles = HandlePool(self, _MAX_OPEN_FILES)

    def __reduce__(self) -> tuple[object, tuple[int]]:
        # Work for "another process" is done by a thread: with the same files, and handles of its own.
        return _of_tree, (self._tree.number,)

    def copy(self) -> MemoryFiles:
        """Return a copy of the file system as a crash would leave it: without locks and descriptors."""
        tree = _Tree()
        with self._tree.lock:
            tree.root = _copied(self._tree.root)
        return MemoryFiles(tree)

    # Descriptors

    def open(self, path: str, flags: int) -> int:
        """Return a new descriptor."""
        if flags not in {READ_ONLY, APPEND, REPLACE}:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        with self._tree.lock:
            folder, name = self._place(path)
            found = folder.get(name)
            if isinstance(found, dict):
                raise _failure(errno.EISDIR, path)
            if found is None:
                if flags == READ_ONLY:
                    raise _failure(errno.ENOENT, path)
                found = folder[name] = _File()
        if flags == REPLACE:
            found.data = bytearray()  # a new object: readers may still use the old bytes
        return self._new(found)

    def _new(self, file: _File) -> int:
        descriptor = next(self._tree.descriptors)
        self._opened[descriptor] = _Opened(file)
        return descriptor

    def close(self, descriptor: int) -> None:
        """Forget a descriptor."""
        opened = self._opened.pop(descriptor, None)
        if opened is None:
            raise _failure(errno.EBADF)
        if opened.has_lock:
            opened.file.is_locked = False

    def duplicate(self, descriptor: int) -> int:
        """Return another descriptor of the same file."""
        return self._new(self._file(descriptor))

    def lock(self, descriptor: int) -> None:
        """Lock the file; a second lock raises OSError."""
        opened = self._opened[descriptor]
        if opened.file.is_locked:
            raise _failure(errno.EAGAIN)
        opened.file.is_locked = opened.has_lock = True

    def _file(self, descriptor: int) -> _File:
        opened = self._opened.get(descriptor)
        if opened is None:
            raise _failure(errno.EBADF)
        return opened.file

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Return up to `size` bytes from `position`."""
        with memoryview(self._file(descriptor).data) as data:
            return bytes(data[position : position + size])

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:
        """Send as much as the socket takes at once."""
        return os.write(socket_descriptor, self.read_at(descriptor, min(size, _SENT_AT_ONCE), position))

    def write(self, descriptor: int, data: Buffer, /) -> int:
        """Append."""
        file = self._file(descriptor)
        file.data += data
        file.modified_ms = time.time_ns() // 1_000_000
        return memoryview(data).nbytes

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut, or fill with zeros."""
        data = self._file(descriptor).data
        del data[size:]
        data += bytes(size - len(data))

    def next_data(self, descriptor: int, position: int) -> int | None:
        """Return the position: there are no holes."""
        return position if position < len(self._file(descriptor).data) else None

    def sync(self, descriptor: int) -> None:
        """Do nothing with an open file: there is no disk."""
        self._file(descriptor)

    # Names

    def sync_directory(self, path: str) -> None:
        """Do nothing: there is no disk."""

    def _place(self, path: str) -> tuple[_Folder, str]:
        """Return the folder that a path is in, and its name there."""
        *above, name = _parts(path)
        folder = self._tree.root
        for part in above:
            found = folder.get(part)
            if not isinstance(found, dict):
                raise _failure(errno.ENOENT if found is None else errno.ENOTDIR, path)
            folder = found
        return folder, name

    def _found(self, path: str) -> _File | _Folder:
        folder, name = self._place(path)
        found = folder.get(name)
        if found is None:
            raise _failure(errno.ENOENT, path)
        return found

    def _found_file(self, path: str) -> _File:
        found = self._found(path)
        if isinstance(found, dict):
            raise _failure(errno.EISDIR, path)
        return found

    def size(self, path: str) -> int:
        """Return the number of bytes in a file."""
        return len(self._found_file(path).data)

    def identity(self, place: str | int) -> tuple[int, int]:
        """Return numbers that identify the file system and the file."""
        found = self._file(place) if isinstance(place, int) else self._found(place)
        return self._tree.number, id(found)

    def modified_ms(self, path: str) -> int:
        """Return the time of the last write."""
        return self._found_file(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last write."""
        self._found_file(path).modified_ms = modified_ms

    def names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        found = self._found(path)
        if not isinstance(found, dict):
            raise _failure(errno.ENOTDIR, path)
        return list(found)

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""
        try:
            self._found(path)
        except OSError:
            return False
        return True

    def make_directory(self, path: str) -> None:
        """Create a folder and those above it."""
        with self._tree.lock:
            folder = self._tree.root
            for part in _parts(path):
                found = folder.setdefault(part, {})
                if not isinstance(found, dict):
                    raise _failure(errno.EEXIST, path)
                folder = found

    def rename(self, source: str, target: str) -> None:
        """Move, replacing a file or an empty folder."""
        with self._tree.lock:
            from_folder, from_name = self._place(source)
            to_folder, to_name = self._place(target)
            moved, replaced = from_folder.get(from_name), to_folder.get(to_name)
            if moved is None:
                raise _failure(errno.ENOENT, source)
            if replaced is not None and isinstance(replaced, dict) != isinstance(moved, dict):
                raise _failure(errno.EISDIR if isinstance(replaced, dict) else errno.ENOTDIR, target)
            if isinstance(replaced, dict) and replaced:
                raise _failure(errno.ENOTEMPTY, target)
            del from_folder[from_name]
            to_folder[to_name] = moved

    def remove(self, path: str) -> None:
        """Delete a file; its descriptors stay open."""
        self._remove(path, is_folder=False)

    def remove_directory(self, path: str) -> None:
        """Delete an empty folder."""
        self._remove(path, is_folder=True)

    def _remove(self, path: str, *, is_folder: bool) -> None:
        with self._tree.lock:
            try:
                folder, name = self._place(path)
            except FileNotFoundError:
                return
            found = folder.get(name)
            if found is None:
                return
            if isinstance(found, dict) != is_folder:
                raise _failure(errno.ENOTDIR if is_folder else errno.EISDIR, path)
            if isinstance(found, dict) and found:
                raise _failure(errno.ENOTEMPTY, path)
            del folder[name]

    def volume(self, path: str) -> tuple[int, int]:  # noqa: ARG002  there is only one
        """Return the bytes of memory of the machine, and how many are free. macOS does not say: there, all are."""
        page_size, free = os.sysconf("SC_PAGE_SIZE"), "SC_AVPHYS_PAGES"
        return page_size * os.sysconf("SC_PHYS_PAGES"), page_size * os.sysconf(free if free in os.sysconf_names else "SC_PHYS_PAGES")


def _of_tree(number: int) -> MemoryFiles:
    return MemoryFiles(_trees[number])


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]


def _copied(folder: _Folder) -> _Folder:
    return {
        name: _copied(found) if isinstance(found, dict) else _File(bytes(found.data), found.modified_ms) for name, found in folder.items()
    }


def _failure(code: int, path: str | None = None) -> OSError:
    return OSError(code, os.strerror(code), path)
