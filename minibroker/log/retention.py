"""Deletion of the oldest segments of a log, by the rules of UnifiedLog.deleteOldSegments of Apache Kafka.

log start   all records are below log_start_offset (DeleteRecords), with any cleanup.policy
size        without the segment, the log still has retention.bytes or more
time        its largest timestamp is more than retention.ms ago; for records without timestamp, the modification time of the `.log`

Size and time apply if cleanup.policy has `delete`. A segment with records at or above the high watermark stays. The active segment is
deleted like any other unless it is empty; the log first rolls.

A timestamp in the future keeps its segment and all later ones until that time, so that a producer's fast clock loses no records. If the
`.log` of a segment cannot be read, its modification time is used, so that damage does not keep a log from shrinking.

Invariant: readers see the new log start at once. Files are deleted later, once the names of the remaining files are on disk, and after
file.delete.delay.ms. Deletions run on another thread and own the files that they delete.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from minibroker.clock import Clock
from minibroker.errors import CorruptMessage, KafkaStorageError
from minibroker.log.deletion import remove_files
from minibroker.log.failures import LogFailures
from minibroker.log.flusher import Flusher
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import Snapshots
from minibroker.log.segments import Segments, is_overdue
from minibroker.storage.files import Files
from minibroker.storage.segment import Segment

logger = logging.getLogger(__name__)

SEGMENTS_A_TURN: Final = 40  #: renaming the files of one takes about 85 us
TOLERATED_MS: Final = 60 * 60 * 1000  #: how far ahead a timestamp may be by default (message.timestamp.after.max.ms); no warning


class RetainedLog(Protocol):
    """A log, as Retention uses it."""

    config: LogConfig
    future_segment: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    segments: Segments
    snapshots: Snapshots

    def roll(self) -> None:
        """Start a new segment."""

    def start_at(self, offset: int) -> None:
        """Move the log start, and call `delete_below_start`."""

    def remove_later(self, work: Callable[[], None]) -> None:
        """Run a removal of files off the loop."""


class Retention:
    """Decides which segments of a log are deleted, and deletes them."""

    __slots__ = ("_clock", "_failures", "_files", "_flusher", "_log")

    def __init__(self, log: RetainedLog, *, failures: LogFailures, flusher: Flusher, files: Files, clock: Clock) -> None:
        self._log = log
        self._failures = failures
        self._flusher = flusher
        self._files = files
        self._clock = clock

    def enforce(self, now_ms: int, *, limit: int | None = None) -> int:
        """Delete expired segments, `limit` at most, and return how many. Rolls the active segment if it is too old.

        The log start moves at once; the files are deleted later. Raises KafkaStorageError.
        """
        log = self._log
        with self._failures.watched():
            if is_overdue(log.segments.active, log.config, now_ms, self._files):
                log.roll()
            below_start, count = self._expired_count(now_ms, limit)
            if count == len(log.segments):
                log.roll()
            log.start_at(max(log.segments.nth(count).base_offset, log.log_start_offset))
        return count - below_start

    def _expired_count(self, now_ms: int, limit: int | None) -> tuple[int, int]:
        """Return how many of the oldest segments are below the log start, and how many must be deleted, including those.

        At most `limit` beyond the log start. If all must be deleted, the log has to roll first.
        """
        log, config = self._log, self._log.config
        segments = list(log.segments)
        ends = [segment.base_offset for segment in segments[1:]]
        below_start = 0
        while below_start < len(ends) and ends[below_start] <= log.log_start_offset:
            below_start += 1
        if "delete" not in config.cleanup_policy:
            return below_start, below_start
        ends.append(log.log_end_offset)
        end = len(segments) if segments[-1].size else len(segments) - 1
        while end and ends[end - 1] > log.high_watermark:
            end -= 1
        if limit is not None:
            end = min(end, below_start + limit)
        count = below_start
        if config.retention_bytes >= 0:
            count = _over_size(segments, count, end, config.retention_bytes)
        if config.retention_ms >= 0:
            while count < end and now_ms - self._newest_ms(segments[count], now_ms) > config.retention_ms:
                count += 1
        return below_start, count

    def delete_below_start(self) -> None:
        """Delete the segments below the log start, once the names of the others are on disk."""
        if self._has_segments_below_start:
            self._flusher.when_names_are_synced(self._delete_some)

    def _delete_some(self) -> None:
        log = self._log
        with self._failures.watched():
            taken = log.segments.take_below(log.log_start_offset, SEGMENTS_A_TURN)
            paths = [path for segment in taken for path in segment.mark_deleted()]
            paths += log.snapshots.retire_below(min(log.segments.nth(0).base_offset, log.log_start_offset))
        log.remove_later(lambda: remove_files(self._files, paths))
        if self._has_segments_below_start:
            self._clock.call_later_ms(0, self._delete_more)

    @property
    def _has_segments_below_start(self) -> bool:
        segments = self._log.segments
        return segments.floor(self._log.log_start_offset).base_offset > segments.nth(0).base_offset

    def _delete_more(self) -> None:
        """Check everything again: since the last turn the log may have rolled or closed, or its start may have moved."""
        if not self._failures.is_closed:
            with suppress(KafkaStorageError):  # `on_storage_error` was called
                self.delete_below_start()

    def _newest_ms(self, segment: Segment, now_ms: int) -> int:
        try:
            timestamp = segment.largest_timestamp().timestamp
        except CorruptMessage as error:
            logger.warning("%s; retention uses the modification time of the file", error)
            timestamp = -1
        if timestamp < 0:
            return self._files.modified_ms(segment.log.path)
        if timestamp - now_ms > TOLERATED_MS and segment.base_offset != self._log.future_segment:
            self._log.future_segment = segment.base_offset
            logger.warning(
                "%s: its largest timestamp is %d s in the future, so retention keeps the segment until then",
                segment.log.path,
                (timestamp - now_ms) // 1000,
            )
        return timestamp


def _over_size(segments: Sequence[Segment], count: int, end: int, retention_bytes: int) -> int:
    excess = sum(segment.size for segment in segments[count:]) - retention_bytes
    while count < end and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count
