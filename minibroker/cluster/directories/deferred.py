"""Open new logs and remove deleted ones a few in each turn of the loop.

Create the files of new partitions a few in each turn of the loop, so that a topic of a thousand partitions delays no other request.

    committed to the metadata log --its turn, or the first use of `Partition.log`--> open
             ^                                         |
             |--RETRY_MS later, or at the next use-- an error that passes: too few descriptors, but not a failing disk

Clients do not notice: the partition has its leader immediately, and its log is opened at its first use. If the broker dies before that, the
partition is in the metadata log, and the next start creates its files.

Rename the folders of deleted logs a few in each turn of the loop, so that deleting thousands of partitions delays no other request.

    removed from its partition and directory --its turn, or a new log of its name--> closed, its folder renamed; its files are removed later

The deletion is final before that: no client finds the log, and the metadata log has the topic's id as a deleted one. If the broker dies,
the next start removes the folders by this id. A snapshot does not contain such ids, so none is taken before the last folder is renamed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.cluster.partition import Partition
from minibroker.log.partition_log import PartitionLog

#: Logs that one turn of the loop opens. Each creates a folder and four files, which takes 0.4 ms of CPU,
#: and several milliseconds in all while the disk is busy. Requests for many logs are served in pieces of
#: this size.
OPENED_AT_ONCE: Final = 8
TURN_MS: Final = 5  #: time after which a turn ends with fewer logs, because the disk is busy. A clock that jumps does no harm
RETRY_MS: Final = 1000


class LateOpening:
    """The partitions of a cluster whose logs are not opened yet, in order."""

    def __init__(self, clock: Clock, open_log: Callable[[Partition], bool]) -> None:
        self._clock = clock
        self._open_log = open_log  #: opens a log, or takes the partition offline and returns whether a retry may succeed
        self._waiting: deque[Partition] = deque()
        self._unhurried: list[Partition] = []  #: opened at first use or by `finish` only
        self._timer: Timer | None = None

    def add(self, partitions: Iterable[Partition], *, at_first_use: bool = False) -> None:
        """Open these logs, the first ones before this returns unless others wait. With `at_first_use` open each when it is used first."""
        if at_first_use:
            for partition in partitions:
                partition.open_later(self._open)
                self._unhurried.append(partition)
            return
        for partition in partitions:
            partition.open_later(self._open)
            self._waiting.append(partition)
        if self._timer is None:
            self._turn()

    def finish(self) -> None:
        """Open all waiting logs that can be opened now."""
        self.stop()
        self._waiting.extend(self._unhurried)
        self._unhurried.clear()
        for _ in range(len(self._waiting)):
            self._open_next()
        if self._waiting:
            self._timer = self._clock.call_later_ms(RETRY_MS, self._turn)

    def stop(self) -> None:
        """Open logs only at their first use from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self._timer = None
        until_ms = self._clock.now_ms() + TURN_MS
        for _ in range(min(OPENED_AT_ONCE, len(self._waiting))):
            if not self._open_next():  # the others would fail as well
                self._timer = self._clock.call_later_ms(RETRY_MS, self._turn)
                return
            if self._clock.now_ms() >= until_ms:
                break
        if self._waiting:
            self._timer = self._clock.call_later_ms(0, self._turn)

    def _open_next(self) -> bool:
        """Try to open the first one. Return whether it needs no retry."""
        partition = self._waiting.popleft()
        partition.open_now()
        if partition.is_unopened:
            self._waiting.append(partition)
            return False
        return True

    def _open(self, partition: Partition) -> None:
        if self._open_log(partition):
            partition.open_later(self._open)


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
        until_ms = self._clock.now_ms() + TURN_MS
        for key in list(islice(self._waiting, REMOVED_AT_ONCE)):
            self._remove(key)
            if self._clock.now_ms() >= until_ms:
                break
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
