"""The seam to the file system: all system calls of the storage go through `Files`, so that a test can make any of them fail.

Hot calls (`read_at`, `write`, `sync`) take a file descriptor and are the system calls themselves, without a Python frame in between.
All calls raise only OSError.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

READ_ONLY = os.O_RDONLY | os.O_CLOEXEC
APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOTTY})  #: of a file system that does not know a call
_F_FULLFSYNC: Final = 51  #: fcntl.F_FULLFSYNC, which only macOS has
REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Files(Protocol):
    """The file system operations of the storage. Paths are strings."""

    handles: HandlePool

    @property
    def is_shared(self) -> bool:
        """Whether another process that unpickles this object finds the same files."""

    @property
    def sends_in_threads(self) -> bool:
        """Whether another thread may call `send`."""

    def open(self, path: str, flags: int) -> int:
        """Return a new file descriptor; `flags` is READ_ONLY, APPEND or REPLACE."""

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""

    def duplicate(self, descriptor: int) -> int:
        """Return another descriptor of the same open file: another thread may sync it while this one is closed."""

    def lock(self, descriptor: int) -> None:
        """Lock the file until the descriptor is closed. Raises EAGAIN or EACCES if it is already locked."""

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Read up to `size` bytes from `position`; fewer only at the end of the file."""

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:
        """Send up to `size` bytes from `position` to a socket without reading them. Returns how many it took."""

    def write(self, descriptor: int, data: Buffer, /) -> int:
        """Append, and return how many bytes were written."""

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file."""

    def next_data(self, descriptor: int, position: int) -> int | None:
        """Return the next position from `position` on with written bytes; None if only a hole follows."""

    def sync(self, descriptor: int) -> None:
        """Return when everything written so far is on disk."""

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""

    def size(self, path: str) -> int:
        """Return the size of a file. Raises FileNotFoundError."""

    def identity(self, place: str | int) -> tuple[int, int]:
        """Return the device and inode of a path or a descriptor. Raises FileNotFoundError."""

    def modified_ms(self, path: str) -> int:
        """Return the modification time of a file in epoch milliseconds."""

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the modification time of a file."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, in no order."""

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents; does nothing if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Move atomically, replacing the target."""

    def remove(self, path: str) -> None:
        """Delete a file; does nothing if it does not exist."""

    def remove_directory(self, path: str) -> None:
        """Delete an empty folder; does nothing if it does not exist."""

    def volume(self, path: str) -> tuple[int, int]:
        """Return the bytes of a folder's volume: the total, and those that this process can still use."""


def sync_to_drive(descriptor: int) -> None:
    """Sync a file on macOS, where fsync leaves the data in the drive's cache. The JVM does the same."""
    try:
        fcntl.fcntl(descriptor, _F_FULLFSYNC)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        os.fsync(descriptor)


class RealFiles:
    """The file system of this machine."""

    is_shared: bool = True
    sends_in_threads: bool = True

    def __init__(self, *, max_open_files: int | None = None) -> None:
        self.handles = HandlePool(self, max_open_files or default_max_open_files())

    def __reduce__(self) -> tuple[type[RealFiles], tuple[()]]:
        # Work for another process takes the file system with it, but not the open files.
        return RealFiles, ()

    close = staticmethod(os.close)
    duplicate = staticmethod(os.dup)
    read_at = staticmethod(os.pread)
    send = staticmethod(os.sendfile)
    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(sync_to_drive if sys.platform == "darwin" else os.fsync)
    names = staticmethod(os.listdir)
    exists = staticmethod(os.path.exists)
    rename = staticmethod(os.replace)

    def open(self, path: str, flags: int) -> int:
        """Return a new file descriptor; a new file has the mode rw-r--r--, as Kafka's."""
        return os.open(path, flags, 0o644)

    def lock(self, descriptor: int) -> None:
        """Take a flock, which keeps out other brokers, also in this process, and on Linux a POSIX record lock, which keeps out the JVM.

        On macOS a flock keeps out the JVM as well: locks of both kinds exclude each other there, even those of one process.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if sys.platform == "linux":
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def next_data(self, descriptor: int, position: int) -> int | None:
        """Return the next position with written bytes; None if only a hole follows."""
        try:
            return os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno not in UNSUPPORTED:
                raise
        return position if position < os.fstat(descriptor).st_size else None  # a file system without holes

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in a folder durable."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync(descriptor)
        finally:
            os.close(descriptor)

    def size(self, path: str) -> int:
        """Return the size of a file."""
        return os.stat(path).st_size

    def identity(self, place: str | int) -> tuple[int, int]:
        """Return the device and inode of a path or a descriptor."""
        found = os.stat(place)
        return found.st_dev, found.st_ino

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the modification time of a file."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_directory(self, path: str) -> None:
        """Create a folder and its parents."""
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
        """Return the bytes of a folder's volume: all, and usable ones."""
        found = os.statvfs(path)
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail


def default_max_open_files() -> int:
    """Return a third of the files that the process may open, at most 16,384: the rest is for connections."""
    import resource  # noqa: PLC0415  not on every platform, and asked once

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 16384 if soft == resource.RLIM_INFINITY else max(16, min(soft // 3, 16384))


class FileHandle:
    """A log file that is open only while it is used: thousands of partitions share the descriptors of one pool.

    `descriptor` is -1 while it is closed; `opened()` opens it first.
    """

    __slots__ = ("_pool", "descriptor", "flags", "on_close", "path", "used")

    def __init__(self, pool: HandlePool, path: str, flags: int) -> None:
        self._pool = pool
        self.path = path
        self.flags = flags
        self.descriptor = -1
        self.used = False  #: since the pool last looked for one to close
        self.on_close: Callable[[], None] | None = None  #: called when the pool closes it to make room

    def opened(self) -> int:
        """Return the descriptor; opens the file if the pool has closed it."""
        self.used = True
        if self.descriptor < 0:
            self._pool.open(self)
        return self.descriptor

    def close(self) -> None:
        """Close the descriptor; the handle may be opened again."""
        self._pool.close(self)


class HandlePool:
    """A pool of at most `capacity` open handles: opening one more closes one that was not used lately (second chance).

    Invariant: every handle with a descriptor is in the queue once. Only one thread uses handles; all may use `open_path`.
    """

    def __init__(self, files: Files, capacity: int) -> None:
        self._files = files
        self._queue: deque[FileHandle] = deque()
        self._owner = 0  #: the thread that uses handles; no other thread may close one
        self.capacity = capacity

    def __del__(self) -> None:
        # As file objects do: a broker closes its logs, but tests drop hundreds of them.
        for handle in self._queue:
            with contextlib.suppress(OSError):
                self._files.close(handle.descriptor)

    def handle(self, path: str, flags: int) -> FileHandle:
        """Return a handle that is not open yet."""
        return FileHandle(self, path, flags)

    def __len__(self) -> int:
        return len(self._queue)

    def open(self, handle: FileHandle) -> None:
        """Open a handle; closes others first if there are too many."""
        self._owner = get_ident()
        while len(self._queue) >= self.capacity:
            self._close_one()
        handle.descriptor = self.open_path(handle.path, handle.flags)
        self._queue.append(handle)

    def open_path(self, path: str, flags: int) -> int:
        """Return a descriptor outside the pool. If the process has none left (EMFILE), the pool closes its own until it has."""
        while True:
            try:
                return self._files.open(path, flags)
            except OSError as error:
                if not self._makes_room(error):
                    raise

    def duplicate(self, handle: FileHandle) -> int:
        """Return another descriptor of a handle's file, outside the pool."""
        descriptor = handle.opened()
        while True:
            try:
                return self._files.duplicate(descriptor)
            except OSError as error:
                if not self._makes_room(error, keep=handle):
                    raise

    def _makes_room(self, error: OSError, keep: FileHandle | None = None) -> bool:
        """Close a handle other than `keep`, if that may help. The pool shrinks each time, so this ends.

        It does not raise `error` itself: a frame of the traceback would refer to it, and only the garbage collector, which stops the loop,
        would free it.
        """
        spare = len(self._queue) - (keep is not None)
        if error.errno not in OUT_OF_DESCRIPTORS or spare <= 0 or get_ident() != self._owner:
            return False
        self._close_one(keep)
        return True

    def close(self, handle: FileHandle) -> None:
        """Close a handle, if it is open."""
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
    """Read a small file."""
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
    """Return the bytes of a file without a hole at its end, and its size: Kafka's indexes are 10 MB, mostly a hole."""
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
    """Append all bytes. Raises ENOSPC if the system takes no more."""
    rest = memoryview(data)
    while rest:
        taken = files.write(descriptor, rest)
        if taken <= 0:
            raise OSError(errno.ENOSPC, "The file system took no bytes")
        rest = rest[taken:]


def replace_file(files: Files, path: str, data: Buffer, *, sync: bool) -> None:
    """Replace a small file by writing `path.tmp` and renaming it: a reader finds the whole old or the whole new file.

    With `sync` this also holds after a power loss, as with Kafka's CheckpointFile.
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


_LEAST_SLEEP_S: Final = 0.02  #: shorter sleeps are postponed until they add up


class ThrottledFiles(RealFiles):
    """RealFiles whose reads and writes together take `bytes_per_second`, on average since the first of them."""

    def __init__(
        self, bytes_per_second: float, *, now_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__()
        self._bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._sleep = sleep
        self._moved_bytes = 0
        self._started_s: float | None = None

    def __reduce__(self) -> tuple[type[RealFiles], tuple[float, ...]]:  # type: ignore[override]  # as RealFiles, with its one argument
        return ThrottledFiles, (self._bytes_per_second,)

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        """As RealFiles, then sleep as the rate requires."""
        data = os.pread(descriptor, size, position)
        self._moved(len(data))
        return data

    def write(self, descriptor: int, data: Buffer, /) -> int:
        """As RealFiles, then sleep as the rate requires."""
        taken = os.write(descriptor, data)
        self._moved(taken)
        return taken

    def _moved(self, size: int) -> None:
        now_s = self._now_s()
        if self._started_s is None:
            self._started_s = now_s
        self._moved_bytes += size
        ahead_s = self._moved_bytes / self._bytes_per_second - (now_s - self._started_s)
        if ahead_s >= _LEAST_SLEEP_S:
            self._sleep(ahead_s)
