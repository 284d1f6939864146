"""The interface between an archive and its file system. All changes of its folder pass here, so that tests can interrupt them.

Two calls must be atomic: `commit` (a file of a folder that still exists gets a name that is free) and `move`
of a folder.

Local file systems have a lock. Those that Spark reaches by Hadoop (hdfs:, s3a:, abfs:, gs:) have none: of two jobs at once, the
later one takes over the archive and the earlier one fails at its commit; nothing is lost (store.py). This needs an atomic rename.
Object stores such as S3 have no atomic rename, so only one job at a time may write to an archive there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from minibroker.spark.failures import SourceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: errors of file systems without hard links or without locks
NOT_SUPPORTED = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL})


class FoundFile(NamedTuple):
    """A file below a folder."""

    path: str  #: relative to the folder
    size: int  #: bytes


class TableFiles(Protocol):
    """A file system for archives. Paths are strings with "/" between names. All calls raise OSError, or Hadoop's errors."""

    def url(self, path: str) -> str:
        """Return the path as Spark needs it."""

    def names(self, path: str) -> list[str]:
        """Return the names in a folder, in no order; empty if it does not exist."""

    def below(self, path: str) -> list[FoundFile]:
        """Return all files below a folder, at any depth, sorted; empty if it does not exist."""

    def size(self, path: str) -> int | None:
        """Return the bytes in a file; None if it does not exist."""

    def read(self, path: str) -> bytes:
        """Return a whole file; FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """Write a new file; create its folder if needed. Readers may see half of it."""

    def commit(self, source: str, target: str) -> None:
        """Give `source` the name `target`, atomically; `source` may or may not remain.

        FileExistsError if `target` exists, FileNotFoundError if `source` is gone; then nothing has changed.
        """

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder, atomically; create the folder above `target` if needed. FileNotFoundError, FileExistsError."""

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with its contents; do not fail if it does not exist."""

    def sync(self, folder: str) -> None:
        """Return once all files below a folder, and their names, survive a power loss."""

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:  # noqa: ARG002  of the interface
        """Lock `path` for this process, if the file system supports it; SourceError if another process holds the lock."""
        yield


class LocalTableFiles:
    """Local folders, or folders of a network file system that all executors have at the same path."""

    def url(self, path: str) -> str:
        """Return the path with its scheme, since Spark's default may be another file system."""
        return f"file://{path}"

    def names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        try:
            return os.listdir(path)  # noqa: PTH208  names are strings here
        except FileNotFoundError:
            return []

    def below(self, path: str) -> list[FoundFile]:
        """Return all files below a folder, without Hadoop's checksum files (`.x.crc`)."""
        found = []
        for folder, _, names in os.walk(path):
            for name in names:
                if not (name.startswith(".") and name.endswith(".crc")):
                    whole = Path(folder, name)
                    found.append(FoundFile(whole.relative_to(path).as_posix(), whole.stat().st_size))
        return sorted(found)

    def size(self, path: str) -> int | None:
        """Return the bytes in a file."""
        try:
            return Path(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Write a new file, and sync it."""
        _make_folder(Path(path).parent)
        with open(path, "wb") as file:  # noqa: PTH123  a descriptor is needed
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync(Path(path).parent)

    def commit(self, source: str, target: str) -> None:
        """Create a hard link, which never replaces a file. Without hard links rely on the lock: check the target, then rename."""
        _make_folder(Path(target).parent)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
            self.move(source, target)
        _sync(Path(target).parent)

    def move(self, source: str, target: str) -> None:
        """Rename if `target` is free. The check is safe: the caller holds the lock, or has generated a unique name."""
        if Path(target).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        _make_folder(Path(target).parent)
        Path(source).rename(target)
        _sync(Path(target).parent)

    def remove(self, path: str) -> None:
        """Delete a file or a folder."""
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
            if Path(path).exists():  # another process wrote into it, such as a Spark whose driver died
                shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)

    def sync(self, folder: str) -> None:
        """Sync each file and folder."""
        for where, _, names in os.walk(folder):
            for name in names:
                with suppress(FileNotFoundError):
                    _sync(Path(where, name))
            _sync(Path(where))

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:
        """Lock by flock, which is released when the process stops, however that happens."""
        _make_folder(Path(path).parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
                raise SourceError(
                    f"another job ({holder or 'unknown'}) is writing to this archive: wait until it has finished, or stop it"
                ) from None
            except OSError as error:
                if error.errno not in NOT_SUPPORTED:
                    raise  # no lock, as on other file systems
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
            yield
        finally:
            os.close(descriptor)


def local_path(path: str) -> str:
    """Return the absolute path of a user's path, which may be relative or start with `file:` or `file://`."""
    bare = path.removeprefix("file:")
    return os.path.abspath("/" + bare.lstrip("/") if bare != path else bare)  # noqa: PTH100  a string that keeps symbolic links


def _make_folder(path: Path) -> None:
    """Create a folder and its parents; sync new names."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def _sync(path: Path) -> None:
    """Sync a file or a folder, whichever process wrote to it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_folder(spark: SparkSession, path: str) -> tuple[TableFiles, str]:
    """Return the file system of a user's path, and the full path."""
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to Hadoop's files
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001  likewise
    file_system = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(configuration)
    if file_system.getUri().getScheme() == "file":
        return LocalTableFiles(), local_path(path)
    full = file_system.makeQualified(jvm.org.apache.hadoop.fs.Path(path)).toString()
    return HadoopTableFiles(jvm, file_system), full.rstrip("/")


class HadoopTableFiles:
    """TableFiles on an org.apache.hadoop.fs.FileSystem in the driver's JVM, by py4j."""

    def __init__(self, jvm: Any, file_system: Any) -> None:
        self._jvm = jvm
        self._files = file_system

    def url(self, path: str) -> str:
        """Return the path, which has its scheme."""
        return path

    def names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        where = self._path(path)
        if not self._files.exists(where):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(where)]

    def below(self, path: str) -> list[FoundFile]:
        """Return all files below a folder."""
        where = self._path(path)
        if not self._files.exists(where):
            return []
        prefix = self._files.makeQualified(where).toString().rstrip("/") + "/"
        listing = self._files.listFiles(where, True)
        found = []
        while listing.hasNext():
            status = listing.next()
            found.append(FoundFile(status.getPath().toString().removeprefix(prefix), status.getLen()))
        return sorted(found)

    def size(self, path: str) -> int | None:
        """Return the bytes in a file."""
        where = self._path(path)
        return int(self._files.getFileStatus(where).getLen()) if self._files.exists(where) else None

    def read(self, path: str) -> bytes:
        """Return a whole file."""
        if self.size(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        stream = self._files.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        """Write a new file."""
        stream = self._files.create(self._path(path), True)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()

    def commit(self, source: str, target: str) -> None:
        """Rename; HDFS and similar file systems refuse it if the target exists."""
        self.move(source, target)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder."""
        above = self._path(target).getParent()
        if not self._files.exists(above):
            self._files.mkdirs(above)
        if self._files.exists(self._path(target)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        if not self._files.exists(self._path(source)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)
        if not self._files.rename(self._path(source), self._path(target)):
            kind = errno.ENOENT if self.size(source) is None else errno.EEXIST
            raise OSError(kind, os.strerror(kind), source if kind == errno.ENOENT else target)

    def remove(self, path: str) -> None:
        """Delete a file or a folder."""
        self._files.delete(self._path(path), True)

    def sync(self, folder: str) -> None:
        """Do nothing: closed files are as safe as the file system makes them."""

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:  # noqa: ARG002  of the interface
        """Do nothing: there is no lock."""
        yield

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)
