"""The seam to the file system that an archive is on: every change of its folder passes here, so that a test can die before any of them.

What an archive needs of a file system is little, and two calls must be atomic: `commit` (a file appears under a name that nobody else took,
from a folder that is still there) and `move` of a folder.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from minibroker.spark.errors import SourceError

#: what file systems say that know no hard links, or no locks
NOT_SUPPORTED = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL})


class FoundFile(NamedTuple):
    """A file below a folder."""

    path: str  #: relative to the folder
    size: int  #: bytes


class TableFiles(Protocol):
    """What an archive needs. Paths are strings with "/" between names. All calls raise OSError, or what Hadoop throws."""

    def url(self, path: str) -> str:
        """The path as Spark must be told it."""

    def names(self, path: str) -> list[str]:
        """Names in a folder, in no order; none when it is not there."""

    def below(self, path: str) -> list[FoundFile]:
        """All files below a folder, at any depth, sorted; none when it is not there."""

    def size(self, path: str) -> int | None:
        """Bytes in a file; None when it is not there."""

    def read(self, path: str) -> bytes:
        """A whole file; FileNotFoundError."""

    def write(self, path: str, data: bytes) -> None:
        """A new file in a folder that is made if needed; a reader may see half of it."""

    def commit(self, source: str, target: str) -> None:
        """Give `source` the name `target`, atomically; whether `source` stays is open.

        FileExistsError when `target` was there, FileNotFoundError when `source` is gone: then nothing happened.
        """

    def move(self, source: str, target: str) -> None:
        """Rename a file or a folder, atomically; the folder above `target` is made if needed. FileNotFoundError, FileExistsError."""

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it; one that is gone is fine."""

    def sync(self, folder: str) -> None:
        """Return when all files below a folder, and their names, survive a power loss."""

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:  # noqa: ARG002  of the interface
        """Hold `path` as the only process, if the file system knows how; SourceError when another one holds it."""
        yield


class LocalTableFiles:
    """Folders of this machine, or of a network that all executors share at the same path."""

    def url(self, path: str) -> str:
        """With its scheme: Spark's own default may be another file system."""
        return f"file://{path}"

    def names(self, path: str) -> list[str]:
        """Names in a folder."""
        try:
            return os.listdir(path)  # noqa: PTH208  names are strings here
        except FileNotFoundError:
            return []

    def below(self, path: str) -> list[FoundFile]:
        """All files below a folder; checksum files of Hadoop (`.x.crc`) are none of ours."""
        found = []
        for folder, _, names in os.walk(path):
            for name in names:
                if not (name.startswith(".") and name.endswith(".crc")):
                    whole = Path(folder, name)
                    found.append(FoundFile(whole.relative_to(path).as_posix(), whole.stat().st_size))
        return sorted(found)

    def size(self, path: str) -> int | None:
        """Bytes in a file."""
        try:
            return Path(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        """A whole file."""
        return Path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """A new file, synced."""
        _make_folder(Path(path).parent)
        with open(path, "wb") as file:  # noqa: PTH123  a descriptor is needed
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync(Path(path).parent)

    def commit(self, source: str, target: str) -> None:
        """By a hard link, which never replaces a file; where there are none, by rename behind a look, for then the lock must do."""
        _make_folder(Path(target).parent)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
            self.move(source, target)
        _sync(Path(target).parent)

    def move(self, source: str, target: str) -> None:
        """By rename; which would replace a file, so there is a look first: whoever moves holds the lock, or made the name up."""
        if Path(target).exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        _make_folder(Path(target).parent)
        Path(source).rename(target)
        _sync(Path(target).parent)

    def remove(self, path: str) -> None:
        """Delete a file or a folder."""
        if Path(path).is_dir():
            shutil.rmtree(path, ignore_errors=True)
            if Path(path).exists():  # somebody wrote into it meanwhile, say a Spark whose driver died
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
        """By flock, which ends with the process, however it ends."""
        _make_folder(Path(path).parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 100, 0).decode(errors="replace").strip()
                raise SourceError(
                    f"another job ({holder or 'unknown'}) is writing to this archive: wait until it has ended, or stop it"
                ) from None
            except OSError as error:
                if error.errno not in NOT_SUPPORTED:
                    raise  # else one must do without, as elsewhere
            os.truncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
            yield
        finally:
            os.close(descriptor)


def local_path(path: str) -> str:
    """The whole path, of one as users write it: relative, with `file:` or `file://` before it, or as it is."""
    bare = path.removeprefix("file:")
    return os.path.abspath("/" + bare.lstrip("/") if bare != path else bare)  # noqa: PTH100  a string is wanted, links stay as they are


def _make_folder(path: Path) -> None:
    """A folder and those above it; new names are synced."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        _sync(path.parent)


def _sync(path: Path) -> None:
    """What was written to a file or a folder, by whomever, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
