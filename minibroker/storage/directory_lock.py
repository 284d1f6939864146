"""`.lock`: one process at a time on a log directory.

Two kinds of lock on one empty file: flock keeps out a second broker of ours, also in the same process; a POSIX record lock keeps
out Apache Kafka, whose FileChannel.tryLock takes that kind. The system drops both when the process dies.
"""

from __future__ import annotations

import fcntl

from minibroker.errors import ConfigurationError
from minibroker.storage.files import APPEND, Files

NAME = ".lock"


class DirectoryLock:
    """Held from construction to `release`. ConfigurationError when another process has it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._descriptor = files.open(path, APPEND)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.release()
            raise ConfigurationError(f"{path} is locked: another broker uses this log directory ({error.strerror})") from None

    def release(self) -> None:
        """Let others in; harmless when repeated."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._files.close(descriptor)
