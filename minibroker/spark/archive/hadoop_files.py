"""An archive on any file system that Spark can write to (hdfs:, s3a:, abfs:, gs:), by Hadoop's FileSystem in the driver's JVM.

There is no lock: of two jobs at once the later one takes the archive over, and the earlier one fails at its commit, with nothing lost (see
store.py). That rests on an atomic rename, which object stores like S3 do not have: there, let one job at a time write to an archive.
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
    """The file system of a path as a user writes it, and the path in full."""
    jvm: Any = spark._jvm  # noqa: SLF001  PySpark has no public way to Hadoop's files
    configuration = spark._jsc.hadoopConfiguration()  # noqa: SLF001  likewise
    file_system = jvm.org.apache.hadoop.fs.Path(path).getFileSystem(configuration)
    if file_system.getUri().getScheme() == "file":
        return LocalTableFiles(), local_path(path)
    full = file_system.makeQualified(jvm.org.apache.hadoop.fs.Path(path)).toString()
    return HadoopTableFiles(jvm, file_system), full.rstrip("/")


class HadoopTableFiles:
    """TableFiles over an org.apache.hadoop.fs.FileSystem, by py4j."""

    def __init__(self, jvm: Any, file_system: Any) -> None:
        self._jvm = jvm
        self._files = file_system

    def url(self, path: str) -> str:
        """It has its scheme."""
        return path

    def names(self, path: str) -> list[str]:
        """Names in a folder."""
        where = self._path(path)
        if not self._files.exists(where):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(where)]

    def below(self, path: str) -> list[FoundFile]:
        """All files below a folder."""
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
        """Bytes in a file."""
        where = self._path(path)
        return int(self._files.getFileStatus(where).getLen()) if self._files.exists(where) else None

    def read(self, path: str) -> bytes:
        """A whole file."""
        if self.size(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        stream = self._files.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def write(self, path: str, data: bytes) -> None:
        """A new file."""
        stream = self._files.create(self._path(path), True)
        try:
            stream.write(bytearray(data))
            stream.hsync()
        finally:
            stream.close()

    def commit(self, source: str, target: str) -> None:
        """By rename, which HDFS and its like refuse when the target is there."""
        self.move(source, target)

    def move(self, source: str, target: str) -> None:
        """By rename."""
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
        """Closed files are as safe as this file system makes them."""

    @contextmanager
    def lock(self, path: str) -> Iterator[None]:  # noqa: ARG002  of the interface
        """There is none."""
        yield

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)
