"""Rename the folders of deleted logs a few in each turn of the loop, so that deleting thousands of partitions delays no other request.

    removed from its partition and directory --its turn, or a new log of its name--> closed, its folder renamed; its files are removed later

The deletion is final before that: no client finds the log, and the metadata log has the topic's id as a deleted one. If the broker dies,
the next start removes the folders by this id. A snapshot does not hold such ids, so none is taken before the last folder is renamed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.log.partition_log import PartitionLog

#: Logs that one turn of the loop removes. Each takes 0.05 ms of CPU.
REMOVED_AT_ONCE: Final = 100

Key = tuple[str, int]  #: topic and partition


class LateRemoval:
    """The logs of a cluster that wait to be removed, in order."""

    def __init__(self, clock: Clock, delete_log: Callable[[PartitionLog], None]) -> None:
        self._clock = clock
        self._delete_log = delete_log
        self._waiting: dict[Key, tuple[LogDirectory, PartitionLog]] = {}
        self._topics: set[str] = set()  #: whose old folders the disk may still have under their names
        self._renamed_in: set[LogDirectory] = set()  #: directories to sync
        self._timer: Timer | None = None

    def __len__(self) -> int:
        """Count the logs whose folders are not renamed yet."""
        return len(self._waiting)

    def add(self, key: Key, directory: LogDirectory, log: PartitionLog) -> None:
        """Add a log that was taken out of `directory`. `start` must follow."""
        self._waiting[key] = directory, log
        self._topics.add(key[0])

    def start(self) -> None:
        """Remove the first ones before this returns, unless others wait already."""
        if self._timer is None:
            self._turn()

    def make_way(self, key: Key) -> None:
        """Rename the old folder of a log that will be created, durably: a power loss does not bring it back."""
        if key[0] in self._topics:
            self._remove(key)
            self._sync_names()

    def finish(self) -> None:
        """Remove all waiting logs."""
        self._stop_timer()
        for key in list(self._waiting):
            self._remove(key)
        self._sync_names()
        self._topics.clear()

    def stop(self) -> None:
        """Close the waiting logs. The next start removes them."""
        self._stop_timer()
        for _, log in self._waiting.values():
            with suppress(OSError):
                log.close(clean=False)
        self._waiting.clear()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self._timer = None
        for key in list(islice(self._waiting, REMOVED_AT_ONCE)):
            self._remove(key)
        if self._waiting:
            self._timer = self._clock.call_later_ms(0, self._turn)
        else:
            self.finish()

    def _remove(self, key: Key) -> None:
        directory, log = self._waiting.pop(key, (None, None))
        if directory is None or log is None:
            return
        if directory.offline_cause is not None:  # its disk failed meanwhile: the next start removes the log
            with suppress(OSError):
                log.close(clean=False)
            return
        self._delete_log(log)
        self._renamed_in.add(directory)

    def _sync_names(self) -> None:
        for directory in self._renamed_in:
            directory.sync_names()
        self._renamed_in.clear()
