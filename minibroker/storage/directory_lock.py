"""`.lock`: keep all but one process out of a log directory.

One empty file has two kinds of lock. flock keeps out a second minibroker, also in the same process. A POSIX record lock keeps out
Apache Kafka, whose FileChannel.tryLock takes that kind. The system drops both when the process dies.
"""

from __future__ import annotations

import errno
import fcntl
import os
from struct import Struct

from minibroker.errors import ConfigurationError
from minibroker.storage.files import APPEND, READ_ONLY, Files

NAME = ".lock"

_HELD = {errno.EAGAIN, errno.EACCES}  #: by another process

_FLOCK = Struct("hhqqi4x")  #: struct flock of 64-bit Linux: type, whence, start, length, process id


class DirectoryLock:
    """A lock that is held from construction to `release`. Raises ConfigurationError if another process has it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._descriptor = files.open(path, APPEND)
        try:
            files.lock(self._descriptor)
        except OSError as error:
            self.release()
            if error.errno not in _HELD:
                raise
            raise ConfigurationError(f"{path} is locked: another broker uses this log directory; stop that one first") from None

    def release(self) -> None:
        """Release the lock; does nothing if it was released before."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._files.close(descriptor)


def is_locked(files: Files, path: str) -> bool:
    """Whether another process holds the lock, Apache Kafka or minibroker. Does not take it. Raises OSError if the file cannot be read.

    The process that holds the lock must not call this: closing the file drops its lock. On systems other than 64-bit Linux a lock cannot
    be queried without taking it: returns False there.
    """
    if os.uname().sysname != "Linux":
        return False
    descriptor = files.open(path, READ_ONLY)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[0]
        return found != fcntl.F_UNLCK
    finally:
        files.close(descriptor)
