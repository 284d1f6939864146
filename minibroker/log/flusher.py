"""Which records and file names of a log are on disk, and the flushes that sync them.

A flush does not stop the log: it starts on the owner's thread, syncs on another thread, and ends on the owner's.

    flush = log.flusher.begin_flush()      duplicates the descriptors of unsynced files: the log may continue, roll, even close
    flush.run()                            fsyncs; raises OSError
    log.flusher.end_flush(flush, error)    moves the recovery point, or takes the log offline

Invariants:
- `recovery_point` and the count of synced folder changes move only after an fsync that succeeded; one that failed takes the log offline.
  A failed fsync is never retried: the system may have dropped the pages and report success for the next one (PostgreSQL found this
  in 2018), so acknowledged records could be lost.
- Names of files are counted separately from their contents. If a power loss took the name of the newest segment, and older segments were
  deleted as well, the next start could not find out where the log ended. So deletions wait until the names of the remaining files are on
  disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from minibroker.background import Background, InlineBackground
from minibroker.clock import Clock
from minibroker.errors import KafkaStorageError
from minibroker.log.aborted_transactions import AbortedTransactions
from minibroker.log.failures import LogFailures
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import ProducerState
from minibroker.log.segments import Segments
from minibroker.storage.files import OUT_OF_DESCRIPTORS, READ_ONLY, Files
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import TransactionIndex

OPEN_SEGMENTS: Final = 16


class Flush:
    """Syncs everything below `end_offset` that may not be on disk yet. Call `run` once; `end_flush` calls `close`.

    Only the newest segments keep descriptors open. After a lost recovery point all segments of a log must be synced, more than a process
    may have open; `run` opens the older ones one after the other, and skips those that were deleted, or compacted and synced, meanwhile.

    Args:
        segments: in order.
        show: shows readers the flushed records. It is a method of the log, so a flush keeps its log.
        growing: the segment whose indexes are left out, because a recovery rebuilds them.
        aborted: the `.txnindex` of `growing` unless it is synced. It is not left out: once the segment is complete, a recovery may start
            after it.
        folder_changes: the changes that syncing `directories` makes durable.
    """

    __slots__ = (
        "_aborted",
        "_aborted_count",
        "_descriptors",
        "_directories",
        "_files",
        "_paths",
        "end_offset",
        "folder",
        "folder_changes",
        "oldest_transaction",
        "show",
    )

    def __init__(
        self,
        files: Files,
        segments: Sequence[Segment],
        folder: str,
        *,
        show: Callable[[Flush], None],
        end_offset: int,
        growing: Segment | None,
        directories: Sequence[str],
        aborted: TransactionIndex | None = None,
        folder_changes: int = 0,
        oldest_transaction: int | None = None,
    ) -> None:
        self._files = files
        self._descriptors: list[int] = []
        self._directories = directories
        self.show = show
        self.end_offset = end_offset
        self.folder = folder  #: of the log, when the flush began
        self.folder_changes = folder_changes
        self.oldest_transaction = oldest_transaction  #: first offset of the oldest open transaction
        self._aborted = aborted
        self._aborted_count = len(aborted.entries) if aborted is not None else 0  #: entries that `run` makes durable
        older, newest = segments[:-OPEN_SEGMENTS], segments[-OPEN_SEGMENTS:]
        self._paths = [path for segment in older for path in segment.paths()]  #: that `run` opens
        try:
            for segment in newest:
                self._descriptors.append(files.handles.duplicate(segment.log))
            for path in [path for segment in newest if segment is not growing for path in segment.paths()[1:]]:
                with suppress(FileNotFoundError):  # most segments have no .txnindex
                    self._descriptors.append(files.handles.open_path(path, READ_ONLY))
            if aborted is not None:
                self._descriptors.append(files.handles.open_path(aborted.path, READ_ONLY))
        except OSError:
            self.close()
            raise

    def run(self) -> None:
        """Sync everything, on any thread; the logs first, because they hold acknowledged records. Raises OSError."""
        for descriptor in self._descriptors:
            self._files.sync(descriptor)
        for path in self._paths:
            self._sync_path(path)
        for directory in self._directories:
            self._files.sync_directory(directory)

    def note_synced(self) -> None:
        """Note that `run` returned without an error."""
        if self._aborted is not None:
            self._aborted.note_synced(self._aborted_count)

    def _sync_path(self, path: str) -> None:
        try:
            descriptor = self._files.handles.open_path(path, READ_ONLY)
        except FileNotFoundError:
            return
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def close(self) -> None:
        """Close the descriptors."""
        while self._descriptors:
            self._files.close(self._descriptors.pop())


class FlushableLog(Protocol):
    """A log, as a Flusher uses it."""

    directory: str
    config: LogConfig
    log_end_offset: int
    segments: Segments
    producers: ProducerState
    aborted: AbortedTransactions

    def show_flushed(self, flush: Flush) -> None:
        """Show readers the records that were hidden until they are on disk."""


class Flusher:
    """Flushes a log when a caller requests it, and in the background after each roll."""

    __slots__ = (
        "_background",
        "_clock",
        "_failures",
        "_files",
        "_last_flush_ms",
        "_open_log",
        "_synced_changes",
        "_waiting",
        "folder_changes",
        "recovery_point",
    )

    def __init__(
        self,
        log: FlushableLog,
        *,
        failures: LogFailures,
        files: Files,
        clock: Clock,
        background: Background | None,
        recovery_point: int,
    ) -> None:
        self._open_log: FlushableLog | None = log  # the log owns this object; `forget_log` ends the cycle
        self._failures = failures
        self._files = files
        self._clock = clock
        self._background = background
        self.recovery_point = recovery_point  #: all records below it are on disk
        self._last_flush_ms = clock.now_ms()
        self.folder_changes = 1  #: counts new files in the folder; 1 for the folder itself
        self._synced_changes = 0
        self._waiting: Callable[[], None] | None = None  #: work that waits for a sync of the folder

    def forget_log(self) -> None:
        """Forget the log, which is deleted. What needs it afterwards raises KafkaStorageError."""
        self._open_log = None

    @property
    def _log(self) -> FlushableLog:
        if self._open_log is None:
            raise self._failures.offline_error()
        return self._open_log

    @property
    def unflushed_messages(self) -> int:
        """The number of records that a power loss could take."""
        return self._log.log_end_offset - self.recovery_point

    def is_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms require a flush. A clock that was set back does not delay it."""
        unflushed, config = self.unflushed_messages, self._log.config
        return unflushed >= config.flush_messages or (unflushed > 0 and abs(now_ms - self._last_flush_ms) >= config.flush_ms)

    def begin_flush(self, end_offset: int | None = None, *, with_active_indexes: bool = False) -> Flush:
        """Return a flush of everything below `end_offset` (default: the log end). Raises KafkaStorageError."""
        log = self._log
        end_offset = log.log_end_offset if end_offset is None else end_offset
        with self._failures.watched():
            segments = [segment for segment in log.segments.from_offset(self.recovery_point) if segment.base_offset < end_offset]
            growing = None if with_active_indexes else log.segments.active
            for segment in segments:
                if segment is not growing:
                    segment.save_indexes()
            directories = [log.directory] if self._synced_changes < self.folder_changes else []
            if not self._synced_changes:
                directories.append(os.path.dirname(log.directory) or ".")  # noqa: PTH120  paths are strings in the storage
            self._last_flush_ms = self._clock.now_ms()
            return Flush(
                self._files,
                segments,
                log.directory,
                show=log.show_flushed,
                end_offset=end_offset,
                growing=growing,
                directories=directories,
                aborted=log.aborted.unsynced(growing) if growing is not None else None,
                folder_changes=self.folder_changes,
                oldest_transaction=log.producers.open_transactions.oldest,
            )

    def end_flush(self, flush: Flush, error: BaseException | None) -> None:
        """Apply the outcome of `flush.run`. A failure takes the log offline and raises KafkaStorageError."""
        flush.close()
        failures = self._failures
        if failures.is_closed:
            raise failures.offline_error()  # deleted meanwhile: its folder has another name
        if flush.folder != self._log.directory:
            error = None  # the log has moved since (log/copying.py), and everything was synced before
        if error is None and failures.offline_cause is None:
            flush.note_synced()
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self._synced_changes = max(self._synced_changes, flush.folder_changes)
            flush.show(flush)
        elif isinstance(error, OSError):
            raise failures.failed(error, is_fatal=error.errno not in OUT_OF_DESCRIPTORS) from error
        elif error is not None:
            raise error
        else:
            raise failures.offline_error()

    def flush(self, *, with_active_indexes: bool = False) -> None:
        """Sync everything. After that, recovery_point is log_end_offset. Raises KafkaStorageError."""
        if self.unflushed_messages > 0:
            flush = self.begin_flush(with_active_indexes=with_active_indexes)
            error: OSError | None = None
            try:
                flush.run()
            except OSError as failure:
                error = failure
            self.end_flush(flush, error)

    def flush_closed_segments(self, end_offset: int) -> None:
        """Sync everything below `end_offset` in the background, if there is a background. Called when the log has rolled."""
        if self._background is not None:
            self._flush_in_background(self._background, end_offset)

    def _flush_in_background(self, background: Background, end_offset: int | None = None) -> None:
        """Flush in the background. Only deletions wait for it. A failure is logged, and takes the log offline."""
        try:
            flush = self.begin_flush(end_offset)
        except KafkaStorageError:
            return  # nothing was lost: the next flush covers it

        def done(result: object) -> None:
            if self._failures.is_closed:
                flush.close()
                self._waiting = None
                return
            with suppress(KafkaStorageError):
                self.end_flush(flush, result if isinstance(result, BaseException) else None)
                if self._waiting is not None:
                    self.when_names_are_synced(self._waiting)

        background.submit(flush.run, done)

    def when_names_are_synced(self, work: Callable[[], None]) -> None:
        """Call `work` once the names of all current files are on disk. A later call replaces work that still waits."""
        if self._synced_changes < self.folder_changes:
            self._waiting = work
            self._flush_in_background(self._background or InlineBackground())
        else:
            self._waiting = None
            work()

    def note_moved(self) -> None:
        """Record that the log continues in another folder, in which everything is synced."""
        self.recovery_point = self._log.log_end_offset
        self._synced_changes = self.folder_changes
