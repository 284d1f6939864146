"""Calls of the file system that fail by the rules of a test: a `Files` over the broker's own, in memory and on a disk.

The failure is real to the broker: an append is cut off, a log directory goes offline, clients get
KAFKA_STORAGE_ERROR. Without faults, reads and writes are the methods of the underlying file system.

A file belongs to the partition whose folder it is in. Work in other processes (compaction) uses the
underlying file system.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from minibroker.storage.files import Files, HandlePool
from minibroker.storage.log_file_names import parse_folder_name
from minibroker.testing.faults.numbered import NumberedFaults
from minibroker.testing.faults.rule import FaultFrequency
from minibroker.testing.options import BrokerError

if TYPE_CHECKING:
    from typing_extensions import Buffer

OPERATIONS: Final = ("write", "read", "sync", "open")
PREFIX: Final = "storage-"  #: of ids, which distinguishes them from those of other faults


class StorageFault:
    """Calls that fail. `topic` None: on all files; `partition` None: on all partitions of the topic."""

    def __init__(self, *, topic: str | None, partition: int | None, on: str, error: str, frequency: FaultFrequency) -> None:
        if on not in OPERATIONS:
            raise BrokerError(f"storage: on must be one of {', '.join(OPERATIONS)}, got {on!r}")
        code = getattr(errno, error, None)
        if not isinstance(code, int):
            raise BrokerError(f"storage: {error!r} is not an error of a file system: use ENOSPC, EIO, EMFILE, EROFS, ...")
        if partition is not None and topic is None:
            raise BrokerError("storage: a partition needs its topic")
        self.topic = topic
        self.partition = partition
        self.on = on
        self.error = error
        self.code = code
        self.frequency = frequency

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

    def end(self) -> None:
        """Do nothing: no call waits."""

    def to_json(self) -> dict[str, Any]:
        """Encode the arguments, with calls and hits."""
        return {
            "kind": "storage",
            "topic": self.topic,
            "partition": self.partition,
            "on": self.on,
            "error": self.error,
            "often": self.frequency.spec,
            "calls": self.frequency.calls,
            "hits": self.frequency.hits,
        }


class StorageFaults(NumberedFaults[StorageFault]):
    """The storage faults of one broker, which apply to the files that it has now."""

    def __init__(self, open_logs: Callable[[], None]) -> None:
        """`open_logs` creates the files of new partitions, which are otherwise created at first use."""
        super().__init__(PREFIX)
        self._open_logs = open_logs
        self._files: FailingFiles | None = None

    def over(self, files: Files) -> Files:
        """Remove all faults, and return the file system for a broker that starts."""
        self._faults.clear()
        self._files = FailingFiles(files)
        return self._files.as_files()

    def add(self, on: str, error: str, topic: str | None, partition: int | None, often: Mapping[str, Any]) -> str:
        """Add a fault and return its id. Raises BrokerError if an argument is invalid."""
        fault = StorageFault(topic=topic, partition=partition, on=on, error=error, frequency=FaultFrequency(often))
        if on != "open":
            self._open_logs()  # an append should fail, not the creation of the folder of a new topic
        name = self.enter(fault)
        self._apply()
        return name

    def _apply(self) -> None:
        if self._files is not None:
            self._files.fail(tuple(self._faults.values()))

    def remove(self, name: str) -> None:
        """Remove a fault; does nothing if there is none. Log directories that are offline stay offline."""
        super().remove(name)
        self._apply()


class FailingFiles:
    """A `Files` over another one; `as_files` gives it that type."""

    def __init__(self, underlying: Files) -> None:
        self.is_shared: Final = underlying.is_shared
        self.sends_in_threads: Final = False  # the order of failing calls must not depend on threads
        self._underlying = underlying
        self._paths: dict[int, str] = {}  #: of open descriptors
        self._faults: tuple[StorageFault, ...] = ()
        self.handles = HandlePool(cast("Files", self), underlying.handles.capacity)
        self.lock = underlying.lock
        self.next_data = underlying.next_data
        self.size = underlying.size
        self.identity = underlying.identity
        self.modified_ms = underlying.modified_ms
        self.set_modified_ms = underlying.set_modified_ms
        self.names = underlying.names
        self.exists = underlying.exists
        self.remove = underlying.remove
        self.remove_directory = underlying.remove_directory
        self.volume = underlying.volume
        self.read_at: Callable[[int, int, int], bytes]
        self.write: Callable[[int, Buffer], int]
        self.send: Callable[[int, int, int, int], int]
        self.fail(())

    def __reduce__(self) -> tuple[Callable[[Files], Files], tuple[Files]]:
        # Another process gets the underlying file system.
        return _itself, (self._underlying,)

    def as_files(self) -> Files:
        """Return this object as a `Files`: for mypy, attributes are no methods."""
        return cast("Files", self)

    def fail(self, faults: tuple[StorageFault, ...]) -> None:
        """Apply these faults in place of the earlier ones."""
        self._faults = faults
        self.read_at = self._read_at if faults else self._underlying.read_at
        self.write = self._write if faults else self._underlying.write
        self.send = self._send if faults else self._underlying.send

    def _raise_if_hit(self, operation: str, path: str | None) -> None:
        for fault in self._faults:
            if path is not None and fault.is_for(operation, path) and fault.frequency.hits_now():
                raise OSError(fault.code, f"{os.strerror(fault.code)} (a fault of the test)", path)

    # Descriptors

    def open(self, path: str, flags: int) -> int:
        """Open, or fail."""
        self._raise_if_hit("open", path)
        descriptor = self._underlying.open(path, flags)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        """Close."""
        self._paths.pop(descriptor, None)
        self._underlying.close(descriptor)

    def duplicate(self, descriptor: int) -> int:
        """Duplicate a descriptor."""
        other = self._underlying.duplicate(descriptor)
        path = self._paths.get(descriptor)
        if path is not None:
            self._paths[other] = path
        return other

    def _read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        self._raise_if_hit("read", self._paths.get(descriptor))
        return self._underlying.read_at(descriptor, size, position)

    def _send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:
        self._raise_if_hit("read", self._paths.get(descriptor))
        return self._underlying.send(socket_descriptor, descriptor, position, size)

    def _write(self, descriptor: int, data: Buffer, /) -> int:
        self._raise_if_hit("write", self._paths.get(descriptor))
        return self._underlying.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        """Truncate; a full disk allows that."""
        self._underlying.truncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Sync, or fail."""
        self._raise_if_hit("sync", self._paths.get(descriptor))
        self._underlying.sync(descriptor)

    # Names

    def sync_directory(self, path: str) -> None:
        """Sync a directory, or fail as a sync of its files does."""
        self._raise_if_hit("sync", f"{path}/")
        self._underlying.sync_directory(path)

    def make_directory(self, path: str) -> None:
        """Create a directory, or fail as a write."""
        self._raise_if_hit("write", f"{path}/")
        self._underlying.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or fail as a write."""
        self._raise_if_hit("write", target)
        self._underlying.rename(source, target)


def _itself(files: Files) -> Files:
    return files
