"""Archives on any file system that Spark can write to (hdfs:, s3a:, abfs:, gs:), by Hadoop's FileSystem in the driver's JVM.

There is no lock. Of two jobs at once, the later one takes over the archive and the earlier one fails at its
commit; nothing is lost (store.py). This needs an atomic rename. Object stores such as S3 have none, so only one
job at a time may write to an archive there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minibroker.spark.archive.files import FoundFile, LocalTableFiles, TableFiles, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    """TableFiles on an org.apache.hadoop.fs.FileSystem, by py4j."""

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
