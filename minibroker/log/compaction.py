"""Compaction of a log: for each key the last record stays.

    found = log.compaction.cleanable(first_dirty_offset, now_ms)    how much can be compacted
    plan = log.compaction.plan(first_dirty_offset, now_ms, ...)     the input of a round
    compacted = plan.run(files)                                     compaction_round.py, in another process
    log.compaction.swap_in(compacted)                               swapping.py; False if the log has changed too much meanwhile

Everything below `first_dirty_offset` was compacted before. A round ends at
first_uncleanable_offset: it does not include the active segment, records above the last stable
offset, and records younger than min.compaction.lag.ms. The keys from the first dirty offset on go
into an offset map of bounded size. Then every segment up to the end of the map is filtered and
rewritten. Small adjacent segments become one, as long as they do not exceed segment.bytes and
segment.index.bytes together. If the map was full before the end of the round, the next round starts
there, at next_dirty_offset.

Source: LogToClean and LogCleanerManager of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from minibroker.log.aborted_transactions import AbortedTransactions
from minibroker.log.batch_filter import LastRecord
from minibroker.log.compaction_round import Compacted, CompactionPlan
from minibroker.log.failures import LogFailures
from minibroker.log.flusher import Flusher
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import Producer, ProducerState, Snapshots
from minibroker.log.segments import Segments
from minibroker.log.swapping import Source, remove_replaced, swap_all
from minibroker.storage.files import Files


class Cleanable(NamedTuple):
    """How much of a log can be compacted. Bytes are those of whole segments."""

    clean_bytes: int  #: compacted before
    dirty_bytes: int  #: up to first_uncleanable_offset
    first_uncleanable_offset: int
    must_clean: bool  #: some of the dirty records are older than max.compaction.lag.ms

    @property
    def ratio(self) -> float:
        """The share of dirty bytes, which is compared with min.cleanable.dirty.ratio."""
        total_bytes = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total_bytes if total_bytes else 0.0


class CompactedLog(Protocol):
    """A log, as LogCompaction uses it."""

    directory: str
    config: LogConfig
    last_stable_offset: int
    segments: Segments
    producers: ProducerState
    aborted: AbortedTransactions
    snapshots: Snapshots

    def remove_later(self, work: Callable[[], None]) -> None:
        """Run a removal of files off the loop."""


class LogCompaction:
    """Plans the rounds of one log and takes over their results."""

    def __init__(self, log: CompactedLog, *, failures: LogFailures, flusher: Flusher, files: Files) -> None:
        self._log = log
        self._failures = failures
        self._flusher = flusher
        self._files = files

    def cleanable(self, first_dirty_offset: int, now_ms: int) -> Cleanable:
        """Return how much is below and above `first_dirty_offset`. Reads the disk only if a lag is configured. Raises KafkaStorageError."""
        with self._failures.watched():
            return self._measure(first_dirty_offset, now_ms)

    def _measure(self, first_dirty_offset: int, now_ms: int) -> Cleanable:
        log, segments, config = self._log, self._log.segments, self._log.config
        active = segments.active
        closed = [segment for segment in segments.from_offset(first_dirty_offset) if segment is not active]
        limit_offset = min(log.last_stable_offset, active.base_offset)
        if config.min_compaction_lag_ms > 0:
            for segment in closed:
                timestamp = segment.largest_timestamp().timestamp
                if (segment.modified_ms if timestamp < 0 else timestamp) > now_ms - config.min_compaction_lag_ms:
                    limit_offset = min(limit_offset, segment.base_offset)
                    break
        limit_offset = max(limit_offset, first_dirty_offset)
        end = active if limit_offset >= active.base_offset else segments.floor(limit_offset)
        dirty_bytes = sum(segment.size for segment in closed if segment.base_offset < end.base_offset)
        clean_bytes = sum(segment.size for segment in segments if segment.base_offset < first_dirty_offset)
        must_clean = False
        if dirty_bytes and config.max_compaction_lag_ms < now_ms:
            must_clean = any(0 < segment.first_batch_timestamp() < now_ms - config.max_compaction_lag_ms for segment in closed)
        return Cleanable(clean_bytes, dirty_bytes, end.base_offset, must_clean)

    def plan(self, first_dirty_offset: int, now_ms: int, *, offset_map_bytes: int) -> CompactionPlan | None:
        """Plan a round for everything that is cleanable; None if nothing is.

        Only one round of a log may run at a time. Raises KafkaStorageError.
        """
        log = self._log
        with self._failures.watched():
            found = self._measure(first_dirty_offset, now_ms)
            if not found.dirty_bytes:
                return None
            end_offset = found.first_uncleanable_offset
            return CompactionPlan(
                directory=log.directory,
                sources=tuple(Source(each.base_offset, each.size) for each in log.segments if each.base_offset < end_offset),
                first_dirty_offset=first_dirty_offset,
                first_uncleanable_offset=end_offset,
                now_ms=now_ms,
                offset_map_bytes=offset_map_bytes,
                config=log.config,
                aborted=tuple(log.aborted.collect(log.segments.nth(0).base_offset, end_offset)),
                last_records=_last_records(log.producers.producers),
            )

    def swap_in(self, compacted: Compacted) -> bool:
        """Replace segments by those that a round wrote; False if the log has changed, so that they cannot be used.

        The folder is not synced: the caller syncs it before it relies on `compacted.next_dirty_offset`. A failure takes the log offline
        and raises KafkaStorageError.
        """
        log = self._log
        if self._failures.offline_cause is not None:
            return False
        try:
            paths = swap_all(self._files, log.segments, log.snapshots, compacted.groups, log.config)
        except OSError as error:
            raise self._failures.failed(error, is_fatal=True) from error
        if paths is None:
            return False
        self._flusher.folder_changes += 1
        log.remove_later(lambda: remove_replaced(self._files, log.directory, paths))
        return True


def _last_records(producers: Mapping[int, Producer]) -> dict[int, LastRecord]:
    """Return the last batch of each known producer, which stays in the log, at least as a header."""
    return {
        producer_id: LastRecord(producer.batches[-1].last_offset if producer.batches else -1, producer.producer_epoch)
        for producer_id, producer in producers.items()
    }
