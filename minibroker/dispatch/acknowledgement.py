"""What has to wait while a test holds high watermarks back: for tests, as everything in this file.

A held high watermark plays followers that do not come along. Of what Kafka asks all in-sync replicas, nothing is done then:

    Produce with acks=all   done when the high watermark has passed the records
    WriteTxnMarkers         likewise
    DeleteRecords           done when the low watermark, the lowest log start of all replicas, has come to the offset

Such a request waits, for its own timeout_ms at most (WriteTxnMarkers: for request.timeout.ms), and what is not done then is
REQUEST_TIMED_OUT: in the log, or deleted at the leader, nevertheless. Where another broker leads meanwhile, what was appended is
NOT_LEADER_OR_FOLLOWER at once (Partition.checkEnoughReplicasReachOffset); DeleteRecords waits on, as in Kafka.
Golden answers: tests/golden/capture_held.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.cluster.partition import Partition
from minibroker.dispatch.delayed import Delayed
from minibroker.errors import KafkaError, NotLeaderOrFollower, RequestTimedOut
from minibroker.log.partition_log import PartitionLog

IsDone = Callable[[PartitionLog], bool]


class Wanted(NamedTuple):
    """What all replicas must have done before the request is answered; `fail` is told when they will not."""

    partition: Partition
    is_done: IsDone
    fail: Callable[[KafkaError], None]
    leads: Callable[[Partition], bool] | None = None  #: whether the broker that was asked is (still) the leader; None: it does not matter


def is_shown(end_offset: int) -> IsDone:
    """Readers see all below `end_offset`."""
    return lambda log: log.high_watermark >= end_offset


def is_deleted(offset: int) -> IsDone:
    """No replica has records below `offset`."""
    return lambda log: log.low_watermark >= offset


class Acknowledgement(Delayed):
    """Waits until all that is wanted is done, or has failed, and a sync that was asked for is done."""

    __slots__ = ("_answer", "_is_syncing", "_logs", "_timer", "_unsubscribe", "_wanted")

    def __init__(self, answer: Callable[[], Any], wanted: Sequence[Wanted]) -> None:
        """`answer` makes the response in the end."""
        super().__init__()
        self._answer = answer
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
            self.resolve(self._answer)

    def _is_open(self, wanted: Wanted) -> bool:
        """Whether there is still something to wait for."""
        log = wanted.partition.online_log
        if log is None or log is not self._logs[wanted.partition]:
            wanted.fail(wanted.partition.offline_cause)
            return False
        if wanted.leads is not None and not wanted.leads(wanted.partition):
            wanted.fail(NotLeaderOrFollower())
            return False
        return not wanted.is_done(log)

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
