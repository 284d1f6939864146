"""Notice that files were removed, moved or replaced while the broker runs. An open file would accept writes that the next start misses.

    a log directory, or the folder of the metadata log     the directory goes offline, as when its disk fails
    the folder of a partition, or its active segment       that partition goes offline

The checks run on the loop and cost a few cheap system calls: each examines all log directories and the next LOGS_A_CHECK logs. They
compare the open file with the one at its path, so that a copy in its place is noticed as well.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.directories.log_directory import DISK_ERRORS, LogDirectory
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import Files

CHECK_INTERVAL_MS: Final = 2_000
LOGS_A_CHECK: Final = 1_000  #: some 3 us each

Identity = tuple[int, int]


class FilesRemoved(OSError):  # noqa: N818  named for what happened
    """A file or folder of the broker is not where it was."""

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


class RemovalWatch:
    """Checks the directories of one broker, and calls a callback once for each lost directory or log."""

    def __init__(
        self,
        directories: Sequence[LogDirectory],
        metadata_folder: str,
        *,
        files: Files,
        clock: Clock,
        on_directory_lost: Callable[[LogDirectory, OSError], None],
        on_log_lost: Callable[[LogDirectory, PartitionLog, OSError], None],
    ) -> None:
        """`metadata_folder` is that of the metadata log, in one of the directories."""
        self._directories = directories
        self._metadata_folder = metadata_folder
        self._files = files
        self._clock = clock
        self._on_directory_lost = on_directory_lost
        self._on_log_lost = on_log_lost
        self._folders: list[tuple[LogDirectory, str, Identity]] = []  #: folders that must keep their identity
        self._round: Iterator[tuple[LogDirectory, PartitionLog]] = iter(())
        self._timer: Timer | None = None

    def start(self) -> None:
        """Record the identities of the directories, and check them from now on."""
        for directory in self._directories:
            if directory.offline_cause is None:
                folders = [directory.path]
                if os.path.dirname(self._metadata_folder) == directory.path:  # noqa: PTH120  paths are strings in the storage
                    folders.append(self._metadata_folder)
                self._folders += [(directory, folder, self._files.identity(folder)) for folder in folders]
        self._schedule()

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._timer = self._clock.call_later_ms(CHECK_INTERVAL_MS, self._check)

    def _check(self) -> None:
        self._schedule()
        for directory, folder, identity in self._folders:
            if directory.offline_cause is None and (error := self._changed(folder, identity)) is not None:
                self._on_directory_lost(directory, error)
        self._check_logs()

    def _check_logs(self) -> None:
        if not (logs := list(islice(self._round, LOGS_A_CHECK))):
            everything = [(directory, log) for directory in self._directories for log in directory.logs.values()]
            self._round = iter(everything)
            logs = list(islice(self._round, LOGS_A_CHECK))
        for directory, log in logs:
            if directory.offline_cause is None and not log.failures.is_closed:
                handle = log.segments.active.log
                opened = self._files.identity(handle.descriptor) if handle.descriptor >= 0 else None
                if (error := self._changed(handle.path, opened)) is not None:
                    self._on_log_lost(directory, log, error)

    def _changed(self, path: str, identity: Identity | None) -> OSError | None:
        """Return an error if a path no longer has the file of that identity (None: any), or None if it has or that is unknown."""
        try:
            found = self._files.identity(path)
        except (FileNotFoundError, NotADirectoryError):
            return FilesRemoved(errno.ENOENT, "was removed while the broker was running", path)
        except OSError as error:
            return error if error.errno in DISK_ERRORS else None
        if identity is not None and found != identity:
            return FilesRemoved(errno.ESTALE, "was replaced while the broker was running", path)
        return None
