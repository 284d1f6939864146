"""A file system that fails as a test tells it: the seam of the storage (storage/files.py), over data in memory and on a disk alike.

What goes wrong is real to the broker: an append that is cut off, a log directory that goes offline, KAFKA_STORAGE_ERROR to clients.
While nothing is to fail, reads and writes are those of the file system beneath, without a frame between.

Files are known by the partition whose folder they are in. Work in other processes (compaction) is done on the file system beneath.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.storage.files import Files, HandlePool
from minibroker.storage.log_file_names import parse_folder_name
from minibroker.testing.errors import BrokerError
from minibroker.testing.often import Often

if TYPE_CHECKING:
    from typing_extensions import Buffer

OPERATIONS: Final = ("write", "read", "sync", "open")


class StorageFault:
    """Calls that fail. `topic` None: of all files; `partition` None: of all partitions of the topic."""

    def __init__(self, *, topic: str | None, partition: int | None, on: str, error: str, often: Often) -> None:
        if on not in OPERATIONS:
            raise BrokerError(f"storage: on={on!r} is none of {', '.join(OPERATIONS)}")
        code = getattr(errno, error, None)
        if not isinstance(code, int):
            raise BrokerError(f"storage: {error!r} is no error of a file system: ENOSPC, EIO, EMFILE, EROFS are some")
        if partition is not None and topic is None:
            raise BrokerError("storage: a partition is one of a topic: say which")
        self.topic = topic
        self.partition = partition
        self.on = on
        self.error = error
        self.code = code
        self.often = often

    def is_for(self, operation: str, path: str) -> bool:
        """Whether a call is one that may fail."""
        if operation != self.on:
            return False
        if self.topic is None:
            return True
        name = path.rpartition("/")[0].rpartition("/")[2]
        try:
            topic, partition = parse_folder_name(name)
        except ValueError:
            return False
        return topic == self.topic and self.partition in {None, partition}

    def to_json(self) -> dict[str, Any]:
        """As it was asked for, with what it did."""
        return {
            "kind": "storage",
            "topic": self.topic,
            "partition": self.partition,
            "on": self.on,
            "error": self.error,
            "often": self.often.said,
            "calls": self.often.calls,
            "hits": self.often.hits,
        }


class FailingFiles:
    """A `Files` over another one; take it as one with `as_files`."""

    def __init__(self, beneath: Files) -> None:
        self.is_shared: Final = beneath.is_shared
        self._beneath = beneath
        self._paths: dict[int, str] = {}  #: of open descriptors
        self._faults: tuple[StorageFault, ...] = ()
        self.handles = HandlePool(cast("Files", self), beneath.handles.capacity)
        self.lock = beneath.lock
        self.next_data = beneath.next_data
        self.size = beneath.size
        self.identity = beneath.identity
        self.modified_ms = beneath.modified_ms
        self.set_modified_ms = beneath.set_modified_ms
        self.names = beneath.names
        self.exists = beneath.exists
        self.remove = beneath.remove
        self.remove_directory = beneath.remove_directory
        self.volume = beneath.volume
        self.read_at: Callable[[int, int, int], bytes]
        self.write: Callable[[int, Buffer], int]
        self.send: Callable[[int, int, int, int], int]
        self.fail(())

    def __reduce__(self) -> tuple[Callable[[Files], Files], tuple[Files]]:
        # Work for another process goes there with the file system that it would find.
        return _itself, (self._beneath,)

    def as_files(self) -> Files:
        """This, for those who ask for a `Files`: mypy takes attributes for no methods."""
        return cast("Files", self)

    def fail(self, faults: tuple[StorageFault, ...]) -> None:
        """Let these happen from now on, and no others."""
        self._faults = faults
        self.read_at = self._read_at if faults else self._beneath.read_at
        self.write = self._write if faults else self._beneath.write
        self.send = self._send if faults else self._beneath.send

    def _meet(self, operation: str, path: str | None) -> None:
        for fault in self._faults:
            if path is not None and fault.is_for(operation, path) and fault.often.hits_now():
                raise OSError(fault.code, f"{os.strerror(fault.code)} (a fault of the test)", path)

    # -- descriptors ------------------------------------------------------------------------------------------------

    def open(self, path: str, flags: int) -> int:
        """Or fail."""
        self._meet("open", path)
        descriptor = self._beneath.open(path, flags)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close."""
        self._paths.pop(descriptor, None)
        self._beneath.close(descriptor)

    def duplicate(self, descriptor: int) -> int:
        """Another descriptor."""
        other = self._beneath.duplicate(descriptor)
        path = self._paths.get(descriptor)
        if path is not None:
            self._paths[other] = path
        return other

    def _read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        self._meet("read", self._paths.get(descriptor))
        return self._beneath.read_at(descriptor, size, position)

    def _send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:
        self._meet("read", self._paths.get(descriptor))
        return self._beneath.send(socket_descriptor, descriptor, position, size)

    def _write(self, descriptor: int, data: Buffer, /) -> int:
        self._meet("write", self._paths.get(descriptor))
        return self._beneath.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut; a full disk lets one do so."""
        self._beneath.truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Or fail."""
        self._meet("sync", self._paths.get(descriptor))
        self._beneath.sync(descriptor)

    # -- names ------------------------------------------------------------------------------------------------------

    def sync_directory(self, path: str) -> None:
        """Or fail, as files in it do."""
        self._meet("sync", f"{path}/")
        self._beneath.sync_directory(path)

    def make_directory(self, path: str) -> None:
        """Or fail: it is written to the disk."""
        self._meet("write", f"{path}/")
        self._beneath.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Or fail, as above."""
        self._meet("write", target)
        self._beneath.rename(source, target)


def _itself(files: Files) -> Files:
    return files
