"""Sync logs for waiting requests (FlushQueue), and by time (FlushTimer).

Group commit: the logs of all requests of one turn of the loop are synced together in the
background. Requests that arrive during a sync wait for the next one. Many logs are synced in
groups, one after the other, because each log needs descriptors during its sync. A failed fsync is
never retried: the log goes offline, and every request that waited for it fails.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Final

from minibroker.background import Background
from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.topic import Topic
from minibroker.errors import KafkaStorageError
from minibroker.log.flusher import Flush
from minibroker.log.partition_log import PartitionLog

_GROUP: Final = 64  #: logs that are synced at once
_CHECK_MIN_MS: Final = 10
_CHECK_MAX_MS: Final = 1000  #: log.flush.scheduler.interval.ms is "never" by default, but topics may have their own flush.ms

FlushFailures = dict[PartitionLog, KafkaStorageError]
Done = Callable[[FlushFailures], None]
Started = list[tuple[PartitionLog, Flush]]
Results = list[OSError | None]  #: the error of each flush


class FlushQueue:
    """Logs to be synced, and the requests that wait for it."""

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._logs: dict[PartitionLog, None] = {}  #: an ordered set
        self._waiting: list[Done] = []
        self._is_busy = False  #: a sync runs or is due at the end of this turn

    def flush(self, logs: Iterable[PartitionLog], done: Done) -> None:
        """Sync `logs`, then call `done` with all logs that could not be synced, including those of other requests."""
        self._logs.update(dict.fromkeys(logs))
        self._waiting.append(done)
        if not self._is_busy:
            self._is_busy = True
            self._clock.call_later_ms(0, self._start)

    def _start(self) -> None:
        logs, self._logs = self._logs, {}
        waiting, self._waiting = self._waiting, []
        self._sync_some([*logs], {}, waiting)

    def _sync_some(self, logs: list[PartitionLog], failures: FlushFailures, waiting: list[Done]) -> None:
        started: Started = []
        for each in logs[:_GROUP]:
            try:
                started.append((each, each.flusher.begin_flush()))
            except KafkaStorageError as error:
                failures[each] = error
        flushes = [flush for _, flush in started]
        self._background.submit(lambda: _sync(flushes), lambda results: self._finish(started, results, logs[_GROUP:], failures, waiting))

    def _finish(
        self, started: Started, results: Results | BaseException, rest: list[PartitionLog], failures: FlushFailures, waiting: list[Done]
    ) -> None:
        if isinstance(results, BaseException):
            # The content of the disk is unknown, as after a failed fsync.
            results = [OSError(errno.EIO, f"the sync was interrupted: {results!r}")] * len(started)
        for (each, flush), error in zip(started, results, strict=True):
            try:
                each.flusher.end_flush(flush, error)
            except KafkaStorageError as failure:
                failures[each] = failure
        if rest:
            self._sync_some(rest, failures, waiting)
            return
        self._is_busy = bool(self._waiting)
        if self._is_busy:
            self._start()
        with ExitStack() as stack:  # all callbacks run, even if one raises
            for done in reversed(waiting):
                stack.callback(done, failures)


def _sync(flushes: list[Flush]) -> Results:
    """Sync each log, and continue if one fails. Runs in a worker thread."""
    results: Results = []
    for flush in flushes:
        try:
            flush.run()
        except OSError as error:
            results.append(error)
        else:
            results.append(None)
    return results


class FlushTimer:
    """`log.flush.interval.ms`: syncs logs whose oldest unsynced record is old enough.

    Checks every log once in an interval.
    """

    def __init__(self, cluster: Cluster, clock: Clock, flush_queue: FlushQueue, interval_ms: int) -> None:
        self._cluster = cluster
        self._clock = clock
        self._flush_queue = flush_queue
        self._interval_ms = max(_CHECK_MIN_MS, min(interval_ms, _CHECK_MAX_MS))
        self._timer: Timer = clock.call_later_ms(self._interval_ms, self.check)

    def check(self) -> None:
        """Sync the logs that are due."""
        now_ms = self._clock.now_ms()
        due = [log for topic in self._cluster.topics.values() for log in _logs_flushed_by_time(topic) if log.flusher.is_due(now_ms)]
        if due:
            self._flush_queue.flush(due, lambda _: None)  # no request waits, and the log reports failures
        self._timer = self._clock.call_later_ms(self._interval_ms, self.check)

    def stop(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()


def _logs_flushed_by_time(topic: Topic) -> Iterator[PartitionLog]:
    """Yield the logs of a topic if they are flushed by time.

    All logs of a topic have the same configuration.
    """
    for partition in topic.partitions:
        log = partition.online_log
        if log is not None:
            if not log.config.is_flushed:
                return
            yield log
