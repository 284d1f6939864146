"""Group commit: requests that may be answered only after an fsync share one.

All logs that were asked for in one turn of the loop are synced together in the background; what is asked for while a
sync runs goes with the next one. A failed fsync is never retried: the log goes offline, and every request that waited for it fails.
"""

from __future__ import annotations

from collections.abc import Callable

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.log.flush import Flush
from minibroker.log.partition_log import PartitionLog

Done = Callable[[], None]
Started = list[tuple[PartitionLog, Flush]]
Synced = list[BaseException | None]  #: for each flush how it failed


class FlushQueue:
    """Logs to be synced and who waits for that."""

    def __init__(self, clock: Clock, background: Background) -> None:
        self._clock = clock
        self._background = background
        self._logs: dict[PartitionLog, None] = {}  #: an ordered set
        self._waiting: list[Done] = []
        self._is_busy = False  #: a sync runs or is due at the end of this turn

    def flush(self, logs: list[PartitionLog], done: Done) -> None:
        """Sync `logs` and then call `done`; a log that failed is offline by then and says so when it is asked."""
        self._logs.update(dict.fromkeys(logs))
        self._waiting.append(done)
        if not self._is_busy:
            self._is_busy = True
            self._clock.call_later_ms(0, self._start)

    def _start(self) -> None:
        logs, self._logs = self._logs, {}
        waiting, self._waiting = self._waiting, []
        flushes = [(log, log.begin_flush()) for log in logs]
        self._background.submit(lambda: _sync([flush for _, flush in flushes]), lambda errors: self._finish(flushes, errors, waiting))

    def _finish(self, flushes: Started, errors: Synced | BaseException, waiting: list[Done]) -> None:
        for index, (log, flush) in enumerate(flushes):
            log.end_flush(flush, errors if isinstance(errors, BaseException) else errors[index])
        self._is_busy = False
        if self._waiting:
            self._is_busy = True
            self._start()
        for done in waiting:
            done()


def _sync(flushes: list[Flush]) -> Synced:
    """In a worker thread: sync each, and go on when one fails."""
    errors: Synced = []
    for flush in flushes:
        try:
            flush.run()
        except OSError as error:
            errors.append(error)
        else:
            errors.append(None)
    return errors
