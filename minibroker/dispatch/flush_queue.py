"""Group commit: requests that may be answered only after an fsync share one.

All logs that were asked for in one turn of the loop are synced together in the background; what is asked for while a sync runs goes
with the next one. Many logs are synced in groups, one after the other: each needs descriptors while its sync lasts.
A failed fsync is never retried: the log goes offline, and every request that waited for it fails.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Final

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.errors import KafkaStorageError
from minibroker.log.flusher import Flush
from minibroker.log.partition_log import PartitionLog

_GROUP: Final = 64  #: logs that are synced at once

Failures = dict[PartitionLog, KafkaStorageError]
Done = Callable[[Failures], None]
Started = list[tuple[PartitionLog, Flush]]
Results = list[OSError | None]  #: how each flush failed


class FlushQueue:
    """Logs to be synced and who waits for that."""

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._logs: dict[PartitionLog, None] = {}  #: an ordered set
        self._waiting: list[Done] = []
        self._is_busy = False  #: a sync runs or is due at the end of this turn

    def flush(self, logs: Iterable[PartitionLog], done: Done) -> None:
        """Sync `logs` and then call `done` with the logs that could not be synced, those of other requests among them."""
        self._logs.update(dict.fromkeys(logs))
        self._waiting.append(done)
        if not self._is_busy:
            self._is_busy = True
            self._clock.call_later_ms(0, self._start)

    def _start(self) -> None:
        logs, self._logs = self._logs, {}
        waiting, self._waiting = self._waiting, []
        self._sync_some([*logs], {}, waiting)

    def _sync_some(self, logs: list[PartitionLog], failures: Failures, waiting: list[Done]) -> None:
        started: Started = []
        for each in logs[:_GROUP]:
            try:
                started.append((each, each.flusher.begin_flush()))
            except KafkaStorageError as error:
                failures[each] = error
        flushes = [flush for _, flush in started]
        self._background.submit(lambda: _sync(flushes), lambda results: self._finish(started, results, logs[_GROUP:], failures, waiting))

    def _finish(
        self, started: Started, results: Results | BaseException, rest: list[PartitionLog], failures: Failures, waiting: list[Done]
    ) -> None:
        if isinstance(results, BaseException):
            # No file system said so, but nobody knows what is on the disk: as bad as a failed fsync.
            results = [OSError(errno.EIO, f"the sync did not end: {results!r}")] * len(started)
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
        with ExitStack() as others:  # who are told, too, when one of them fails at what it hears
            for done in reversed(waiting):
                others.callback(done, failures)


def _sync(flushes: list[Flush]) -> Results:
    """In a worker thread: sync each, and go on when one fails."""
    results: Results = []
    for flush in flushes:
        try:
            flush.run()
        except OSError as error:
            results.append(error)
        else:
            results.append(None)
    return results
