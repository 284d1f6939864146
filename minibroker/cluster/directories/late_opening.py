"""New partitions get their files a few in each turn of the loop: a topic of a thousand is created while everybody else is served.

    committed to the metadata log --its turn, or somebody asks for `Partition.log`--> open
             ^                                         |
             |--RETRY_MS later, or who asks next-- an error that passes: too few descriptors, not a disk that fails

Nobody can tell the difference: the partition has its leader at once, and whoever needs the log finds it open. A broker that dies
before has the partition in its metadata log, and makes its files at the next start.
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
    """Those of one cluster that wait to be opened, in order."""

    def __init__(self, clock: Clock, open_log: Callable[[Partition], bool]) -> None:
        self._clock = clock
        self._open_log = open_log  #: gives it its log, or takes it offline and says whether a later try may do better
        self._waiting: deque[Partition] = deque()
        self._unhurried: list[Partition] = []  #: those that have no turn: they wait for who asks, or for `finish`
        self._timer: Timer | None = None

    def add(self, partitions: Iterable[Partition], *, at_first_use: bool = False) -> None:
        """Open these; the first ones before this returns, unless others are in line. `at_first_use`: none before somebody asks for it."""
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
        """Open what is left, as far as it can be opened now."""
        self.stop()
        self._waiting.extend(self._unhurried)
        self._unhurried.clear()
        for _ in range(len(self._waiting)):
            self._open_next()
        if self._waiting:
            self._timer = self._clock.call_later_ms(RETRY_MS, self._turn)

    def stop(self) -> None:
        """Open nothing more but what somebody asks for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self._timer = None
        for _ in range(min(OPENED_AT_ONCE, len(self._waiting))):
            if not self._open_next():  # nor could the others be
                self._timer = self._clock.call_later_ms(RETRY_MS, self._turn)
                return
        if self._waiting:
            self._timer = self._clock.call_later_ms(0, self._turn)

    def _open_next(self) -> bool:
        """Whether it needs no further try."""
        partition = self._waiting.popleft()
        partition.open_now()
        if partition.is_unopened:
            self._waiting.append(partition)
            return False
        return True

    def _open(self, partition: Partition) -> None:
        if self._open_log(partition):
            partition.open_later(self._open)
