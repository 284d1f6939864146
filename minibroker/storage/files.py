"""The seam to the file system: every byte that the storage reads or writes passes here, so that a test can make any of it fail.

Hot calls (`read_at`, `write`, `sync`) take a file descriptor and are the system calls themselves, without a frame of ours between.
All calls raise OSError and nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Files(Protocol):
    """What the storage needs of a file system. Paths are strings; modes and times are left to the system."""

    handles: HandlePool

    @property
    def is_shared(self) -> bool:
        """Whether another process finds the same files, when it is given this object by pickle."""

    def open(self, path: str, flags: int) -> int:
        """A new file descriptor; `flags` is READ_ONLY, APPEND or REPLACE."""

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""

    def duplicate(self, descriptor: int) -> int:
        """Another descriptor of the same open file: another thread may sync it while this one is closed."""

    def lock(self, descriptor: int) -> None:
        """Lock the file until the descriptor is closed; EAGAIN or EACCES when somebody else has it locked."""

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:
        """Send up to `size` bytes from `position` to a socket, without reading them; how many it took."""

    def write(self, descriptor: int, data: Buffer, /) -> int:
        """Append; how many bytes were taken."""

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file."""

    def next_data(self, descriptor: int, position: int) -> int | None:
        """Where behind `position` bytes were ever written; None when only a hole follows: zeros that take no room."""

    def sync(self, descriptor: int) -> None:
        """Return when everything written so far is on the disk."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""

    def size(self, path: str) -> int:
        """Bytes in a file; FileNotFoundError if it does not exist."""

    def identity(self, place: str | int) -> tuple[int, int]:
        """Device and inode of what a path or a descriptor means now; FileNotFoundError if it does not exist."""

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in epoch milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Say when a file was last written: what replaces it keeps its time."""

    def names(self, path: str) -> list[str]:
        """Names in a folder, in no order."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder is there."""

    def make_directory(self, path: str) -> None:
        """Create a folder and those above it; one that exists is fine."""

    def rename(self, source: str, target: str) -> None:
        """Move, replacing what is there, at once."""

    def remove(self, path: str) -> None:
        """Delete a file; one that is gone is fine."""

    def remove_directory(self, path: str) -> None:
        """Delete an empty folder; one that is gone is fine."""

    def volume(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that a folder is on: all of them, and those that this process could still fill."""


class RealFiles:
    """The file system of this machine."""

    is_shared: bool = True

    def __init__(self, *, max_open_files: int | None = None) -> None:
        self.handles = HandlePool(self, max_open_files or default_max_open_files())

    def __reduce__(self) -> tuple[type[RealFiles], tuple[()]]:
        # The file system goes along with work for another process; what is open here does not.
        return RealFiles, ()

    close = staticmethod(os.close)
    duplicate = staticmethod(os.dup)
    read_at = staticmethod(os.pread)
    send = staticmethod(os.sendfile)
    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fsync)
    names = staticmethod(os.listdir)
    exists = staticmethod(os.path.exists)
    rename = staticmethod(os.replace)

    def open(self, path: str, flags: int) -> int:
        """A new file descriptor; a new file is rw-r--r--, as Kafka's."""
        return os.open(path, flags, 0o644)

    def lock(self, descriptor: int) -> None:
        """Two kinds of lock: flock keeps out others in this process too, a POSIX record lock keeps out the JVM."""
        import fcntl  # noqa: PLC0415  not on every platform

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def next_data(self, descriptor: int, position: int) -> int | None:
        """Where the next bytes are that were written; None when only a hole follows."""
        try:
            return os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            raise

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        """Bytes in a file."""
        return os.stat(path).st_size

    def identity(self, place: str | int) -> tuple[int, int]:
        """Device and inode of a path or a descriptor."""
        found = os.stat(place)
        return found.st_dev, found.st_ino

    def modified_ms(self, path: str) -> int:
        """When a file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Say when a file was last written."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        """Create a folder and those above it."""
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        """Delete a file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Delete an empty folder."""
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)

    def volume(self, path: str) -> tuple[int, int]:
        """Bytes of a folder's volume: all, and usable ones."""
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail


def default_max_open_files() -> int:
    """A third of what the process may open, at most 16,384: the rest is for connections."""
    import resource  # noqa: PLC0415  not on every platform, and asked once

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 16384 if soft == resource.RLIM_INFINITY else max(16, min(soft // 3, 16384))


class FileHandle:
    """A log file that is open only while it is used: thousands of partitions share the descriptors of one pool.

    `descriptor` is -1 while it is closed; ask `opened()` unless it was just seen to be open.
    """

    __slots__ = ("_pool", "descriptor", "flags", "on_close", "path", "used")

    def __init__(self, pool: HandlePool, path: str, flags: int) -> None:
        self._pool = pool
        self.path = path
        self.flags = flags
        self.descriptor = -1
        self.used = False  #: since the pool last looked for one to close
        self.on_close: Callable[[], None] | None = None  #: told when the pool closes it to make room

    def opened(self) -> int:
        """The descriptor; opens the file when the pool had closed it."""
        self.used = True
        if self.descriptor < 0:
            self._pool.open(self)
        return self.descriptor

    def close(self) -> None:
        """Give the descriptor back; the handle may be opened again."""
        self._pool.close(self)


class HandlePool:
    """At most `capacity` open handles: a file that is opened beyond that closes one that was not used lately (second chance).

    Invariant: every handle with a descriptor is in the queue once. One thread uses handles; `open_path` is for all.
    """

    def __init__(self, files: Files, capacity: int) -> None:
        self._files = files
        self._queue: deque[FileHandle] = deque()
        self._owner = 0  #: the thread that uses handles: no other may close one under its hands
        self.capacity = capacity

    def __del__(self) -> None:
        # Like a file object: what nobody can use any more is closed. A broker closes its logs; tests drop hundreds of them.
        for handle in self._queue:
            with contextlib.suppress(OSError):
                self._files.close(handle.descriptor)

    def handle(self, path: str, flags: int) -> FileHandle:
        """A handle that is not open yet."""
        return FileHandle(self, path, flags)

    def __len__(self) -> int:
        return len(self._queue)

    def open(self, handle: FileHandle) -> None:
        """Open a handle, making room first."""
        self._owner = get_ident()
        while len(self._queue) >= self.capacity:
            self._close_one()
        handle.descriptor = self.open_path(handle.path, handle.flags)
        self._queue.append(handle)

    def open_path(self, path: str, flags: int) -> int:
        """A descriptor outside the pool; when the process has none left (EMFILE), the pool closes its own until it has."""
        while True:
            try:
                return self._files.open(path, flags)
            except OSError as error:
                if not self._makes_room(error):
                    raise

    def duplicate(self, handle: FileHandle) -> int:
        """Another descriptor of a handle's file, outside the pool."""
        descriptor = handle.opened()
        while True:
            try:
                return self._files.duplicate(descriptor)
            except OSError as error:
                if not self._makes_room(error, keep=handle):
                    raise

    def _makes_room(self, error: OSError, keep: FileHandle | None = None) -> bool:
        """Close one that is not `keep`, if that may help: the pool shrinks each time, so nobody tries for ever.

        It does not raise `error` itself: one that a frame of its traceback names is left to the garbage collector, and that stops the loop.
        """
        spare = len(self._queue) - (keep is not None)
        if error.errno not in OUT_OF_DESCRIPTORS or spare <= 0 or get_ident() != self._owner:
            return False
        self._close_one(keep)
        return True

    def close(self, handle: FileHandle) -> None:
        """Close one, if it is open."""
        if handle.descriptor >= 0:
            self._queue.remove(handle)
            descriptor, handle.descriptor = handle.descriptor, -1
            self._files.close(descriptor)

    def _close_one(self, keep: FileHandle | None = None) -> None:
        while self._queue[0].used or self._queue[0] is keep:
            self._queue[0].used = False
            self._queue.rotate(-1)
        handle = self._queue.popleft()
        descriptor, handle.descriptor = handle.descriptor, -1
        self._files.close(descriptor)
        if handle.on_close is not None:
            handle.on_close()


def read_all(files: Files, path: str) -> bytes:
    """A small file, whole."""
    descriptor = files.handles.open_path(path, READ_ONLY)
    try:
        chunks = []
        position = 0
        while chunk := files.read_at(descriptor, 1 << 20, position):
            chunks.append(chunk)
            position += len(chunk)
        return b"".join(chunks)
    finally:
        files.close(descriptor)


def read_preallocated(files: Files, path: str, *, chunk_size: int = 1 << 17) -> tuple[bytearray, int]:
    """The bytes of a file without the hole that it may end with, and its size: Kafka's indexes are 10 MB of which little is written."""
    descriptor = files.handles.open_path(path, READ_ONLY)
    try:
        data = bytearray()
        while True:
            chunk = files.read_at(descriptor, chunk_size, len(data))
            data += chunk
            if len(chunk) < chunk_size:
                return data, len(data)
            position = files.next_data(descriptor, len(data))
            if position is None:
                return data, files.size(path)
            data += bytes(position - len(data))
    finally:
        files.close(descriptor)


def write_all(files: Files, descriptor: int, data: Buffer) -> None:
    """Append everything; ENOSPC when the system takes nothing more."""
    rest = memoryview(data)
    while rest:
        taken = files.write(descriptor, rest)
        if taken <= 0:
            raise OSError(errno.ENOSPC, "The file system took no bytes")
        rest = rest[taken:]


def replace_file(files: Files, path: str, data: Buffer, *, sync: bool) -> None:
    """Write a small file so that a reader finds the old one or the new one, whole: `path.tmp`, then a rename.

    With `sync` the same holds after a power loss (as Kafka's CheckpointFile does). An empty file is whole as soon as it is there.
    """
    if not memoryview(data).nbytes and not sync:
        files.close(files.handles.open_path(path, REPLACE))
        return
    temporary = path + ".tmp"
    descriptor = files.handles.open_path(temporary, REPLACE)
    try:
        write_all(files, descriptor, data)
        if sync:
            files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, path)
    if sync:
        files.sync_directory(os.path.dirname(path))
