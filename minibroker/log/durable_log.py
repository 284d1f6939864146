"""What of a log is on the disk: its recovery point, and the names in its folder.

Invariants:
- `recovery_point` and `_synced_changes` move only behind an fsync that succeeded; one that failed takes the log offline.
- The names of files count apart from what they hold: of a log that lost the name of its newest segment, and older ones too, nobody
  would know where it ended. What removes files waits for the names of those that stay (`_when_names_are_synced`).

`Flush.run` is all that runs on another thread; it owns what it touches.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from minibroker.background import Background, InlineBackground
from minibroker.clock import Clock
from minibroker.errors import KafkaStorageError
from minibroker.log.flush import Flush
from minibroker.log.loading import LoadedLog
from minibroker.log.log_config import LogConfig
from minibroker.log.readable_log import ReadableLog
from minibroker.storage.files import OUT_OF_DESCRIPTORS, Files


class DurableLog(ReadableLog):
    """A log that is flushed by whoever asks, and on its own behind each roll."""

    config: LogConfig

    def __init__(self, directory: str, loaded: LoadedLog, *, files: Files, clock: Clock, background: Background | None) -> None:
        super().__init__(directory, loaded)
        self._files = files
        self._clock = clock
        self._background = background
        self.recovery_point = loaded.recovery_point  #: all below is on the disk
        self._last_flush_ms = clock.now_ms()
        self._folder_changes = 1  #: how often files appeared in the folder, or the folder itself
        self._synced_changes = 0
        self._waiting: Callable[[], None] | None = None  #: for a sync of the folder

    @property
    def unflushed_messages(self) -> int:
        """How many records a power loss could take."""
        return self.log_end_offset - self.recovery_point

    @property
    def wants_sync(self) -> bool:
        """Whether flush.messages asks for a flush before what was just appended is acknowledged."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a flush; a clock that was set back must not put it off."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed >= self.config.flush_messages or (unflushed > 0 and abs(now_ms - self._last_flush_ms) >= self.config.flush_ms)

    def begin_flush(self, end_offset: int | None = None, *, with_active_indexes: bool = False) -> Flush:
        """Collect what is to be synced so that all below `end_offset` (the log end) is on the disk; see log/flush.py."""
        end_offset = self.log_end_offset if end_offset is None else end_offset
        with self._watched():
            segments = [segment for segment in self.segments.from_offset(self.recovery_point) if segment.base_offset < end_offset]
            growing = None if with_active_indexes else self.segments.active
            for segment in segments:
                if segment is not growing:
                    segment.save_indexes()
            directories = [self.directory] if self._synced_changes < self._folder_changes else []
            if not self._synced_changes:
                directories.append(os.path.dirname(self.directory) or ".")  # noqa: PTH120  paths are strings in the storage
            self._last_flush_ms = self._clock.now_ms()
            return Flush(
                self._files,
                segments,
                self.directory,
                end_offset=end_offset,
                growing=growing,
                directories=directories,
                aborted=self._aborted.unsynced(growing) if growing is not None else None,
                folder_changes=self._folder_changes,
            )

    def end_flush(self, flush: Flush, error: BaseException | None) -> None:
        """Take over what `flush.run` came to. A failure takes the log offline and raises KafkaStorageError."""
        flush.close()
        if flush.folder != self.directory:
            error = None  # the log has moved since (log/copying.py), and everything was synced before
        if error is None and self.offline_cause is None:
            flush.note_synced()
            self.recovery_point = max(self.recovery_point, flush.end_offset)
            self._synced_changes = max(self._synced_changes, flush.folder_changes)
        elif self.is_closed:
            raise self._offline_error()  # deleted meanwhile: its folder has another name
        elif isinstance(error, OSError):
            raise self._failed(error, is_fatal=error.errno not in OUT_OF_DESCRIPTORS) from error
        elif error is not None:
            raise error
        else:
            raise self._offline_error()

    def flush(self, *, with_active_indexes: bool = False) -> None:
        """Return when everything is on the disk: recovery_point is log_end_offset."""
        if self.recovery_point < self.log_end_offset:
            flush = self.begin_flush(with_active_indexes=with_active_indexes)
            error: OSError | None = None
            try:
                flush.run()
            except OSError as failure:
                error = failure
            self.end_flush(flush, error)

    def _flush_in_background(self, background: Background, end_offset: int) -> None:
        """Sync what is complete. Only removals wait for it: a failure is logged, and the log is offline then."""
        try:
            flush = self.begin_flush(end_offset)
        except KafkaStorageError:
            return  # nothing was lost: the next flush covers it

        def done(result: object) -> None:
            if self.is_closed:
                flush.close()
                return
            with suppress(KafkaStorageError):
                self.end_flush(flush, result if isinstance(result, BaseException) else None)
                if self._waiting is not None:
                    self._when_names_are_synced(self._waiting)

        background.submit(flush.run, done)

    def _when_names_are_synced(self, work: Callable[[], None]) -> None:
        """Do `work` when the names of all files that are there now are on the disk; only the last that was asked for is done."""
        if self._synced_changes < self._folder_changes:
            self._waiting = work
            self._flush_in_background(self._background or InlineBackground(), self.log_end_offset)
        else:
            self._waiting = None
            work()
