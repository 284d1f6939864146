"""The cleaner: chooses the next log to compact, runs the compaction in another process, and handles its result.

Every `log.cleaner.backoff.ms`, and while any log is due, the cleaner takes the dirtiest log of all directories. That is the one with the
largest share of bytes that were not compacted yet. It is due if that share is above its `min.cleanable.dirty.ratio`, or if its oldest such
record is older than `max.compaction.lag.ms`. At most `log.cleaner.threads` logs are compacted at the same time, each by a separate process
(`Background.submit_process`). The loop makes the plan and swaps the result in.

    waiting   --dirtiest--> running: log.compaction.plan ... plan.run(files) elsewhere ... log.compaction.swap_in
    running   --swapped in--> waiting, its offset checkpointed
              --compaction disabled, log closed--> cancelled: the process is killed
              --discarded, no space, process lost--> resting until the next interval
              --lost RETRIES times, or any other failure--> set aside, with an error in the log, until the next start
              --a failing disk--> the log directory goes offline

Invariant: a log has at most one running plan, and none starts before the files of a failed one are removed (`_leaving`).

Source: LogCleaner, LogCleanerManager of Apache Kafka 4.3.1. Differences: a full disk does not take the directory offline (the log is
intact, and compaction may free space), the first check comes soon after the start, and a config change triggers a check.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from minibroker.background import Background, WorkLost
from minibroker.clock import Clock, Timer
from minibroker.cluster.directories.log_directory import DISK_ERRORS, LogDirectory
from minibroker.config.broker_config import BrokerConfig
from minibroker.errors import CorruptLogError, KafkaError, KafkaStorageError
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import Files, RealFiles, ThrottledFiles

if TYPE_CHECKING:
    from minibroker.log.compaction_round import Compacted, CompactionPlan

_LOG = logging.getLogger(__name__)

RETRIES: Final = 3  #: how often in a row the process of one log may be lost, for example because it runs out of memory
_FIRST_CHECK_MS: Final = 1000
_LEAST_BACKOFF_MS: Final = 10
_INT_MAX: Final = 2**31 - 1  #: of one offset map, in bytes
_UNTHROTTLED: Final = 1e12  #: bytes a second that no disk reaches; Kafka's default is the largest double
#: Errors that pass: a resource is exhausted at the moment.
_PASSING_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class _Run:
    """A running compaction of one log."""

    def __init__(self, directory: LogDirectory, log: PartitionLog, plan: CompactionPlan) -> None:
        self.directory = directory
        self.log = log
        self.plan = plan
        self.log_start_offset = log.log_start_offset
        self.cancel: Callable[[], None] = _nothing


class Cleaner:
    """Compacts the logs of all directories. Only the plans run outside the owner's thread."""

    def __init__(
        self,
        config: BrokerConfig,
        directories: Sequence[LogDirectory],
        *,
        files: Files,
        clock: Clock,
        background: Background,
        on_storage_error: Callable[[PartitionLog, OSError], None],
    ) -> None:
        self._config = config
        self._directories = directories
        self._files = files
        self._clock = clock
        self._background = background
        self._on_storage_error = on_storage_error
        self._queue: list[tuple[float, int, LogDirectory, PartitionLog]] = []  #: due at the last check, the dirtiest last
        self._running: dict[PartitionLog, _Run] = {}
        self._leaving: set[PartitionLog] = set()  #: their last plan was cancelled or failed, and its files are not removed yet
        self._resting: set[PartitionLog] = set()
        self._set_aside: set[PartitionLog] = set()
        self._paused: set[PartitionLog] = set()  #: logs that move to another directory
        self._requested: set[PartitionLog] = set()  #: to be compacted regardless of their ratio
        self.completed = 0  #: compactions since the start
        self._lost: dict[PartitionLog, int] = {}  #: consecutive lost runs
        self._timer: Timer | None = None
        self._is_choosing = False
        self._is_stopped = False

    @property
    def running(self) -> list[PartitionLog]:
        """Logs that are being compacted."""
        return list(self._running)

    @property
    def set_aside(self) -> list[PartitionLog]:
        """Logs that will not be compacted before the next start."""
        return list(self._set_aside)

    def start(self) -> None:
        """Check soon, and then once per interval."""
        self._schedule(min(self._backoff_ms, _FIRST_CHECK_MS))

    def stop(self) -> None:
        """Start no more compactions, and cancel the running ones."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for log in list(self._running):
            self.cancel(log)

    def reconsider(self) -> None:
        """Check again because configs have changed, and stop compacting logs that are no longer compacted."""
        for log in [log for log in self._running if not log.config.is_compacted]:
            self.cancel(log)
        self._schedule(0)

    def compact(self, logs: Iterable[PartitionLog]) -> None:
        """Compact these logs now, regardless of their dirty ratio."""
        self._requested.update(log for log in logs if log.config.is_compacted)
        self._check()

    def cancel(self, log: PartitionLog) -> None:
        """Stop compacting a log that will be closed or deleted, or must not be compacted. The result of a running plan is discarded."""
        run = self._running.pop(log, None)
        if run is not None:
            self._leaving.add(log)
            run.cancel()
        for logs in (self._resting, self._set_aside, self._requested):
            logs.discard(log)
        self._lost.pop(log, None)

    def pause(self, log: PartitionLog) -> None:
        """Do not compact a log until `resume`. The result of a running plan is discarded."""
        self.cancel(log)
        self._queue = [each for each in self._queue if each[3] is not log]
        self._paused.add(log)

    def resume(self, log: PartitionLog) -> None:
        """Compact a log again, which may be in another directory now."""
        self._paused.discard(log)

    # Choosing

    @property
    def _backoff_ms(self) -> int:
        return max(self._config.log_cleaner_backoff_ms, _LEAST_BACKOFF_MS)

    def _schedule(self, delay_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_stopped:
            self._timer = self._clock.call_later_ms(delay_ms, self._check)

    def _check(self) -> None:
        """Start what is due, up to the number of threads, and schedule the next check."""
        self._resting.clear()
        self._queue.clear()
        try:
            self._begin_due()
        finally:
            self._schedule(self._backoff_ms)

    def _begin_due(self) -> None:
        """Start compactions. With an InlineBackground each is done when `_begin` returns, so the loop ends when nothing is due."""
        if self._is_stopped or self._is_choosing or not self._config.log_cleaner_enable:
            return
        self._is_choosing = True
        try:
            while len(self._running) < self._config.log_cleaner_threads and (found := self._next()) is not None:
                self._begin(*found)
        finally:
            self._is_choosing = False

    def _candidates(self) -> list[tuple[LogDirectory, PartitionLog]]:
        return [(directory, log) for directory in self._directories for log in directory.logs.values() if self._is_free(log)]

    def _is_free(self, log: PartitionLog) -> bool:
        if not log.config.is_compacted or log.failures.offline_cause is not None:
            return False
        return not any(log in logs for logs in (self._running, self._leaving, self._resting, self._set_aside, self._paused))

    def _next(self) -> tuple[LogDirectory, PartitionLog, int] | None:
        """Return the log to compact next, and its first dirty offset."""
        found = self._pop()
        if found is None:
            self._fill_queue()
            found = self._pop()
        return found

    def _pop(self) -> tuple[LogDirectory, PartitionLog, int] | None:
        while self._queue:
            _, _, directory, log = self._queue.pop()
            if self._is_free(log) and (due := self._due(directory, log)) is not None:
                return directory, log, due[1]
        return None

    def _fill_queue(self) -> None:
        """Check all logs. With thousands this takes milliseconds, so it is not repeated for each log that is compacted."""
        found = []
        for number, (directory, log) in enumerate(self._candidates()):
            due = self._due(directory, log)
            if due is not None:
                found.append((due[0], -number, directory, log))
        self._queue = sorted(found, key=lambda each: each[:2])

    def _due(self, directory: LogDirectory, log: PartitionLog) -> tuple[float, int] | None:
        """Return the dirty ratio and first dirty offset of a log, or None if it is not due."""
        first_dirty_offset = _first_dirty_offset(directory, log)
        if log.segments.active.base_offset <= first_dirty_offset:
            self._requested.discard(log)
            return None
        try:
            found = log.compaction.cleanable(first_dirty_offset, self._clock.now_ms())
        except (OSError, KafkaError, CorruptLogError) as error:
            self._failed(log, error)
            return None
        if found.dirty_bytes <= 0:
            self._requested.discard(log)
            return None
        is_due = found.must_clean or found.ratio > log.config.min_cleanable_dirty_ratio or log in self._requested
        return (found.ratio, first_dirty_offset) if is_due else None

    # Running

    def _begin(self, directory: LogDirectory, log: PartitionLog, first_dirty_offset: int) -> None:
        self._requested.discard(log)
        try:
            plan = log.compaction.plan(first_dirty_offset, self._clock.now_ms(), offset_map_bytes=self._offset_map_bytes())
        except (OSError, KafkaError, CorruptLogError) as error:
            self._failed(log, error)
            return
        if plan is None:
            self._resting.add(log)
            return
        run = self._running[log] = _Run(directory, log, plan)
        if not _is_announced(run):
            self._background.submit(directory.cleaner_offsets.write, _warn_of_error)
        cancel = self._background.submit_process(partial(plan.run, self._throttled()), partial(self._finished, run))
        run.cancel = cancel

    def _offset_map_bytes(self) -> int:
        """Return the size of one offset map: all threads share the buffer, which is never filled completely."""
        share = self._config.log_cleaner_dedupe_buffer_size // max(self._config.log_cleaner_threads, 1)
        return int(min(share, _INT_MAX) * self._config.log_cleaner_io_buffer_load_factor)

    def _throttled(self) -> Files:
        share = self._config.log_cleaner_io_max_bytes_per_second / max(self._config.log_cleaner_threads, 1)
        if 0 < share < _UNTHROTTLED and type(self._files) is RealFiles:
            return ThrottledFiles(share)
        return self._files

    def _finished(self, run: _Run, result: Compacted | BaseException) -> None:
        if self._running.get(run.log) is not run:
            self._discard(run)  # it was cancelled
            return
        if run.log.failures.offline_cause is not None:
            del self._running[run.log]
            return  # the folder may have another name, or the disk does not answer
        if not isinstance(result, BaseException) and not _is_announced(run):
            # The write that was started with the run has failed, or is still running.
            again = run.directory.cleaner_offsets.write
            self._background.submit(again, lambda error: self._finished(run, error if isinstance(error, BaseException) else result))
            return
        del self._running[run.log]
        if isinstance(result, FileNotFoundError) and run.log.log_start_offset > run.log_start_offset:
            self._discard(run)  # retention deleted segments of the plan meanwhile
            self._resting.add(run.log)
        elif isinstance(result, BaseException):
            self._discard(run)
            self._failed(run.log, result)
        else:
            self._take(run, result)
        self._begin_due()

    def _take(self, run: _Run, compacted: Compacted) -> None:
        """Swap the result in, and record how far the log is compacted."""
        log, offsets, key = run.log, run.directory.cleaner_offsets, (run.log.topic, run.log.partition)
        try:
            is_taken = log.compaction.swap_in(compacted)
        except KafkaError as error:  # a storage error, which the log has reported
            _LOG.warning("%s: could not swap in the compacted segments: %s", log.name, error)
            self._resting.add(log)
            return
        if not is_taken:
            self._resting.add(log)
            return
        self._lost.pop(log, None)
        self.completed += 1
        _LOG.info(
            "%s is compacted up to offset %d: %d bytes became %d, %d keys, in %d ms",
            log.name,
            compacted.next_dirty_offset,
            compacted.bytes_read,
            compacted.bytes_left,
            compacted.key_count,
            self._clock.now_ms() - run.plan.now_ms,
        )
        if compacted.next_dirty_offset <= _first_dirty_offset(run.directory, log):
            self._resting.add(log)  # no progress: wait for the next check
        offsets.advance(key, compacted.next_dirty_offset)
        self._background.submit(partial(_checkpoint, run), _warn_of_error)

    # Failing

    def _discard(self, run: _Run) -> None:
        """Remove the files of a failed plan. Its log may be compacted again after that."""
        log = run.log
        if log.failures.is_closed:
            self._leaving.discard(log)  # its files are removed with the folder, or at the next start
            return
        self._leaving.add(log)
        self._background.submit(partial(run.plan.discard, self._files), lambda _: self._leaving.discard(log))

    def _failed(self, log: PartitionLog, error: BaseException) -> None:
        """Retry later, take the directory offline or set the log aside, depending on the error."""
        if isinstance(error, KafkaStorageError) and isinstance(error.__cause__, OSError):
            error = error.__cause__
        if isinstance(error, OSError) and error.errno in _PASSING_ERRORS:
            _LOG.warning("could not compact %s: %s (will retry)", log.name, error)
            self._resting.add(log)
        elif isinstance(error, OSError) and error.errno in DISK_ERRORS:
            self._resting.add(log)
            self._on_storage_error(log, error)
        elif isinstance(error, (WorkLost, MemoryError, FileNotFoundError)) and self._lost.get(log, 0) + 1 < RETRIES:
            self._lost[log] = self._lost.get(log, 0) + 1
            _LOG.warning("could not finish the compaction of %s: %s (will retry)", log.name, error)
            self._resting.add(log)
        else:
            _LOG.error("%s is no longer compacted until the next start: %s: %s", log.name, type(error).__name__, error)
            self._set_aside.add(log)


def _first_dirty_offset(directory: LogDirectory, log: PartitionLog) -> int:
    return directory.cleaner_offsets.first_dirty_offset((log.topic, log.partition), log.log_start_offset, log.log_end_offset)


def _is_announced(run: _Run) -> bool:
    return run.directory.cleaner_offsets.announce((run.log.topic, run.log.partition), run.log_start_offset)


def _checkpoint(run: _Run) -> None:
    """Write the checkpoint, in a worker thread. The renames must be on disk first."""
    run.directory.files.sync_directory(run.log.directory)
    run.directory.cleaner_offsets.write()


def _warn_of_error(result: object) -> None:
    if isinstance(result, FileNotFoundError):
        return  # the topic was deleted meanwhile
    if isinstance(result, BaseException):
        _LOG.warning("could not write cleaner-offset-checkpoint: %s", result)


def _nothing() -> None:
    """Do nothing: the process is not started yet."""
