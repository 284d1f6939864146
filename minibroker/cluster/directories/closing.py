"""Close all logs of a directory.

A disk syncs the files of many logs in parallel about as fast as those of one. So a broker with thousands of partitions stops quickly.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final

from minibroker.errors import KafkaError
from minibroker.log.flusher import Flush
from minibroker.log.partition_log import PartitionLog

THREADS: Final = 16  #: threads are used only for at least as many logs
_LOGS_AT_ONCE: Final = 64  #: each needs a few descriptors

_LOG = logging.getLogger(__name__)


def close_logs(logs: Sequence[PartitionLog], *, clean: bool) -> list[bool]:
    """Close logs, and log errors. Return for each whether it was closed as requested."""
    if clean and sum(log.flusher.unflushed_messages > 0 for log in logs) >= THREADS:
        return _close_together(iter(logs))
    return [_close(log, clean=clean) for log in logs]


def _close(log: PartitionLog, *, clean: bool) -> bool:
    try:
        log.close(clean=clean)
    except (OSError, KafkaError) as error:
        _warn(log, error)
        return False
    return True


def _close_together(logs: Iterator[PartitionLog]) -> list[bool]:
    closed: list[bool] = []
    with ThreadPoolExecutor(THREADS, "minibroker-closing") as threads:
        while some := list(islice(logs, _LOGS_AT_ONCE)):
            flushes = [_begin(log) for log in some]
            errors = threads.map(_run, flushes)
            closed += [_end(*each) for each in zip(some, flushes, errors, strict=True)]
    return closed


def _begin(log: PartitionLog) -> Flush | BaseException | None:
    """Return what must be synced (None: nothing), or the error that prevents it."""
    try:
        log.finish()
        return log.flusher.begin_flush(with_active_indexes=True) if log.flusher.unflushed_messages else None
    except (OSError, KafkaError) as error:
        return error


def _run(flush: Flush | BaseException | None) -> BaseException | None:
    """Sync, in a worker thread. Return the error, if any."""
    if not isinstance(flush, Flush):
        return flush
    try:
        flush.run()
    except OSError as error:
        return error
    return None


def _end(log: PartitionLog, flush: Flush | BaseException | None, error: BaseException | None) -> bool:
    try:
        if isinstance(flush, Flush):
            log.flusher.end_flush(flush, error)
        elif error is not None:
            raise error
    except (OSError, KafkaError) as failure:
        _warn(log, failure)
        return False
    return _close(log, clean=False)


def _warn(log: PartitionLog, error: BaseException) -> None:
    _LOG.warning("%s was not closed in order: %s", log.name, error)
