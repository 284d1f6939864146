"""Create the files of new partitions a few in each turn of the loop, so that a topic of a thousand partitions delays no other request.

    committed to the metadata log --its turn, or the first use of `Partition.log`--> open
             ^                                         |
             |--RETRY_MS later, or at the next use-- an error that passes: too few descriptors, but not a failing disk

Clients do not notice: the partition has its leader immediately, and its log is opened at its first use. If the broker dies before that, the
partition is in the metadata log, and the next start creates its files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.partition import Partition

#: Logs that one turn of the loop opens. Each creates a folder and four files, which takes 0.4 ms of CPU,
#: and several milliseconds in all while the disk is busy. Requests for many logs are served in pieces of
#: this size.
OPENED_AT_ONCE: Final = 8
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
        for _ in range(min(OPENED_AT_ONCE, len(self._waiting))):
            if not self._open_next():  # the others would fail as well
                self._timer = self._clock.call_later_ms(RETRY_MS, self._turn)
                return
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
