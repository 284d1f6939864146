"""A file system that fails when a test says so: errors, torn writes, too few descriptors, and a power loss."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _Fault:
    def __init__(self, operation: str, code: int, *, after: int, times: int, path_part: str, torn_at: int | None) -> None:
        self.operation = operation
        self.code = code
        self.after = after
        self.times = times
        self.path_part = path_part
        self.torn_at = torn_at


class FaultyFiles(RealFiles):
    """The real file system but for what `fail` announced; knows which bytes were synced."""

    def __init__(self, *, max_open_files: int | None = None, max_descriptors: int | None = None) -> None:
        super().__init__(max_open_files=max_open_files)
        self._faults: list[_Fault] = []
        self._paths: dict[int, str] = {}
        self._synced: dict[int, bytes] = {}  #: by inode
        self.max_descriptors = max_descriptors  #: EMFILE beyond
        self.most_descriptors = 0
        self.counts: dict[str, int] = {}

    def fail(
        self,
        operation: str,
        code: int,
        *,
        after: int = 0,
        times: int = 1,
        path_part: str = "",
        torn_at: int | None = None,
    ) -> None:
        """Let `operation` (a method's name) fail `times` times with an errno, after `after` successes on paths with `path_part`.

        `torn_at`: a write that fails takes so many bytes first.
        """
        self._faults.append(_Fault(operation, code, after=after, times=times, path_part=path_part, torn_at=torn_at))

    def heal(self) -> None:
        """No more failures."""
        self._faults.clear()

    def _meet(self, operation: str, path: str) -> _Fault | None:
        self.counts[operation] = self.counts.get(operation, 0) + 1
        for fault in self._faults:
            if fault.operation == operation and fault.path_part in path and fault.times:
                if fault.after:
                    fault.after -= 1
                    continue
                fault.times -= 1
                return fault
        return None

    def _raise_if(self, operation: str, path: str) -> None:
        fault = self._meet(operation, path)
        if fault is not None:
            raise OSError(fault.code, os.strerror(fault.code), path)

    def open(self, path: str, flags: int) -> int:
        self._raise_if("open", path)
        if self.max_descriptors is not None and len(self._paths) >= self.max_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        descriptor = super().open(path, flags)
        self._paths[descriptor] = path
        self.most_descriptors = max(self.most_descriptors, len(self._paths))
        return descriptor

    def close(self, descriptor: int) -> None:
        self._paths.pop(descriptor, None)
        os.close(descriptor)

    def duplicate(self, descriptor: int) -> int:
        self._raise_if("duplicate", self._paths[descriptor])
        other = os.dup(descriptor)
        self._paths[other] = self._paths[descriptor]
        return other

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        self._raise_if("read_at", self._paths[descriptor])
        return os.pread(descriptor, size, position)

    def write(self, descriptor: int, data: Buffer, /) -> int:
        path = self._paths[descriptor]
        fault = self._meet("write", path)
        if fault is None:
            return os.write(descriptor, data)
        if fault.torn_at is not None:
            os.write(descriptor, memoryview(data)[: fault.torn_at])
        raise OSError(fault.code, os.strerror(fault.code), path)

    def truncate(self, descriptor: int, size: int) -> None:
        self._raise_if("truncate", self._paths[descriptor])
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._raise_if("sync", self._paths[descriptor])
        status = os.fstat(descriptor)
        reader = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
        self._synced[status.st_ino] = os.pread(reader, status.st_size, 0)
        os.close(reader)

    def sync_directory(self, path: str) -> None:
        self._raise_if("sync_directory", path)

    def rename(self, source: str, target: str) -> None:  # type: ignore[override]
        self._raise_if("rename", source)
        Path(source).replace(target)

    def remove(self, path: str) -> None:
        self._raise_if("remove", path)
        super().remove(path)

    def lose_power(self, folder: Path, rng: random.Random) -> None:
        """Give every file of `folder` the bytes that were synced and anything, or nothing, of what was not."""
        for file in sorted(folder.iterdir()):
            synced = self._synced.get(file.stat().st_ino, b"")
            data = file.read_bytes()
            if not data.startswith(synced):
                synced = b""
            rest = bytearray(data[len(synced) :])
            fate = rng.choice(["kept", "lost", "torn", "zeros", "holes"])
            if fate == "lost":
                rest.clear()
            elif fate == "torn":
                del rest[rng.randrange(len(rest) + 1) :]
            elif fate == "zeros":
                rest = bytearray(len(rest))
            elif fate == "holes" and rest:
                start = rng.randrange(len(rest))
                end = rng.randrange(start, len(rest)) + 1
                rest[start:end] = bytes(end - start)
            file.write_bytes(synced + rest)
