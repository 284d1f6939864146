"""`log.flush.interval.ms`: logs whose oldest unsynced record is old enough are synced in the background."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import Topic
from minibroker.dispatch.flush_queue import FlushQueue
from minibroker.log.partition_log import PartitionLog

_CHECK_MIN_MS: Final = 10
_CHECK_MAX_MS: Final = 1000  #: log.flush.scheduler.interval.ms is "never" by default, but topics may have a flush.ms of their own


class FlushTimer:
    """Looks at every log once an interval."""

    def __init__(self, cluster: Cluster, clock: Clock, flush_queue: FlushQueue, interval_ms: int) -> None:
        self._cluster = cluster
        self._clock = clock
        self._flush_queue = flush_queue
        self._interval_ms = max(_CHECK_MIN_MS, min(interval_ms, _CHECK_MAX_MS))
        self._timer: Timer = clock.call_later_ms(self._interval_ms, self.check)

    def check(self) -> None:
        """Sync what is due."""
        now_ms = self._clock.now_ms()
        due = [log for topic in self._cluster.topics.values() for log in _flushed_logs(topic) if log.flusher.is_due(now_ms)]
        if due:
            self._flush_queue.flush(due, lambda _: None)  # nobody waits: these records were acknowledged; the log says when it failed
        self._timer = self._clock.call_later_ms(self._interval_ms, self.check)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()


def _flushed_logs(topic: Topic) -> Iterator[PartitionLog]:
    """Its logs, if they are to be flushed: one configuration is of all."""
    for partition in topic.partitions:
        log = partition.online_log
        if log is not None:
            if not log.config.is_flushed:
                return
            yield log
