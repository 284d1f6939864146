"""The answer to a Produce with acks=all whose partitions' high watermarks are held back: for tests, as everything in this file.

Kafka answers acks=all when all in-sync replicas have the records, which is when the high watermark has passed them; until then
the request waits, for its own timeout_ms at most, and what is not there then is REQUEST_TIMED_OUT: in the log, and perhaps read later.
Where another broker leads meanwhile it is NOT_LEADER_OR_FOLLOWER (Partition.checkEnoughReplicasReachOffset).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.partition import Partition
from minibroker.dispatch.delayed import Delayed
from minibroker.errors import KafkaError, NotLeaderOrFollower, RequestTimedOut
from minibroker.log.partition_log import PartitionLog


class Wanted(NamedTuple):
    """What must be shown before the request is answered; `fail` is told when it will not be."""

    partition: Partition
    end_offset: int
    fail: Callable[[KafkaError], None]


class Acknowledgement(Delayed):
    """Waits until all that is wanted is shown, or has failed, and a sync that was asked for is done."""

    __slots__ = ("_is_syncing", "_leads", "_logs", "_response", "_timer", "_unsubscribe", "_wanted")

    def __init__(self, response: Any, wanted: Sequence[Wanted], leads: Callable[[Partition], bool]) -> None:
        """`leads`: whether the broker that was asked is (still) a partition's leader."""
        super().__init__()
        self._leads = leads
        self._response = response
        self._wanted = list(wanted)
        self._logs: dict[Partition, PartitionLog | None] = {each.partition: each.partition.online_log for each in wanted}
        self._is_syncing = False
        self._timer: Timer | None = None
        self._unsubscribe: list[Callable[[], None]] = []

    def wait_for_sync(self) -> None:
        """There is no answer before `synced` is called."""
        self._is_syncing = True

    def synced(self) -> None:
        """The sync is done; who was lost by it was told by others."""
        self._is_syncing = False
        self._look()

    def wait(self, clock: Clock, timeout_ms: int) -> None:
        """Begin."""
        self._unsubscribe = [partition.subscribe(self._look) for partition in self._logs]
        self._timer = clock.call_later_ms(max(timeout_ms, 0), self._time_out)
        self._look()

    def _look(self) -> None:
        if self.done:
            return
        self._wanted = [each for each in self._wanted if self._is_open(each)]
        if not self._wanted and not self._is_syncing:
            self.complete(self._response)

    def _is_open(self, wanted: Wanted) -> bool:
        """Whether there is still something to wait for."""
        log = wanted.partition.online_log
        if log is None or log is not self._logs[wanted.partition]:
            wanted.fail(wanted.partition.offline_cause)
            return False
        if not self._leads(wanted.partition):
            wanted.fail(NotLeaderOrFollower())
            return False
        return log.high_watermark < wanted.end_offset

    def _time_out(self) -> None:
        self._timer = None
        for each in self._wanted:
            each.fail(RequestTimedOut())
        self._wanted = []
        self._look()

    def finished(self) -> None:
        """Let go of the timer and of the partitions."""
        super().finished()
        if self._timer is not None:
            self._timer.cancel()
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
