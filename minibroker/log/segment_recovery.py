"""Recovery of one segment after a crash, in one pass: find the first invalid batch, and rebuild state from the valid ones.

A batch is valid if its CRC is right and its offsets follow. The CRC does not cover the base offset: it must not go back or reach the next
segment; in the last segment, which is never compacted, it must not leave a gap. From the valid batches the pass rebuilds the indexes, the
aborted transactions, the leader epochs and the producers. A million small batches take a second and a half, because most batches are
only a tuple of numbers. Only those that determine the state of a producer are read again: its last ones, markers, and the first of a
transaction.
"""

from __future__ import annotations

from collections import deque

from minibroker.errors import CorruptMessage
from minibroker.log.producer_state import RETAINED_BATCHES, ProducerState
from minibroker.records.batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatch
from minibroker.storage.batch_scan import UNKNOWN_OFFSET, VerifiedBatch, read_verified
from minibroker.storage.checkpoint_file import LeaderEpochCheckpoint
from minibroker.storage.files import Files
from minibroker.storage.indexes import NO_TIMESTAMP, TimestampEntry
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import AbortedTxn


class SegmentRecovery:
    """Recovers a segment: call `run`, then read the attributes.

    Args:
        expected_offset: the base offset of the first batch if there is no gap before it.
        limit_offset: all offsets are below it.
        may_have_gaps: whether offsets may be missing between batches.
        epochs: receives new leader epochs.
        producers: receives the batches of producers.
    """

    def __init__(
        self,
        segment: Segment,
        files: Files,
        *,
        expected_offset: int,
        limit_offset: int,
        may_have_gaps: bool,
        epochs: LeaderEpochCheckpoint,
        producers: ProducerState,
    ) -> None:
        self._segment = segment
        self._files = files
        self._limit_offset = limit_offset
        self._may_have_gaps = may_have_gaps
        self._epochs = epochs
        self._producers = producers
        self._aborted: list[AbortedTxn] = []
        self._unread: dict[int, deque[tuple[int, int]]] = {}  #: positions and sizes of a producer's last batches, not read yet
        self.next_offset = expected_offset  #: after the last valid batch
        self.size = 0  #: bytes of valid batches
        self.is_compacted = False  #: records are missing between others, so some may be missing at the end
        self.problem: str | None = None  #: why the batch at `size` is not valid

    def run(self) -> None:
        """Walk over the batches and fill the segment's indexes. Writes only leader epochs and missing aborted transactions."""
        self._segment.begin_rebuild()
        try:
            self._walk()
        except CorruptMessage as error:
            self.problem = str(error)
        for kept in self._unread.values():
            self._update_producer(kept)
        self._segment.transaction_index.replace(self._aborted)

    def _walk(self) -> None:
        segment = self._segment
        offset_index, time_index, interval = segment.offset_index, segment.time_index, segment.index_interval_bytes
        largest, largest_offset, first_timestamp = NO_TIMESTAMP, segment.base_offset, None
        next_offset, limit_offset, latest_epoch = self.next_offset, self._limit_offset, self._epochs.latest
        indexed = 0
        after = 0  # position after the last valid batch
        try:
            for batch in read_verified(self._files, segment.log, 0, segment.size):
                position, size, base_offset, last_offset, timestamp, epoch, _, producer_id, count, is_right = batch
                if not is_right:
                    self.problem = "the CRC of the batch is wrong"
                    return
                if base_offset != next_offset or count != last_offset - base_offset + 1:
                    self.is_compacted = True
                    if base_offset == UNKNOWN_OFFSET:
                        base_offset = next_offset  # reads of this set will fail, but the log is not damaged
                    elif base_offset < next_offset or (base_offset > next_offset and not self._may_have_gaps):
                        last_offset = limit_offset  # it is not valid
                if not base_offset <= last_offset < limit_offset:
                    self.problem = f"offsets {base_offset} to {batch[3]} where {next_offset} is the next"
                    return
                if epoch > latest_epoch or producer_id >= 0:
                    latest_epoch = self._note(batch, latest_epoch)
                if timestamp > largest:
                    largest, largest_offset = timestamp, last_offset
                if position - indexed > interval:
                    offset_index.append(last_offset, position)
                    time_index.maybe_append(largest, largest_offset)
                    indexed = position
                elif position == 0:
                    first_timestamp = timestamp
                next_offset = last_offset + 1
                after = position + size
        finally:
            self.next_offset, self.size = next_offset, after
            segment.end_rebuild(TimestampEntry(largest, largest_offset), first_timestamp)

    def _note(self, batch: VerifiedBatch, latest_epoch: int) -> int:
        """Note the leader epoch and the producer of a batch. Returns the newest epoch."""
        position, size, base_offset, _, _, epoch, attributes, producer_id, _, _ = batch
        if epoch > latest_epoch:
            self._epochs.assign(epoch, base_offset)
            latest_epoch = epoch
        if producer_id >= 0:
            kept = self._unread.get(producer_id)
            if kept is None:
                kept = self._unread[producer_id] = deque(maxlen=RETAINED_BATCHES)
            kept.append((position, size))
            if attributes & CONTROL_FLAG or (
                attributes & TRANSACTIONAL_FLAG and producer_id not in self._producers.open_transactions.first_offsets
            ):
                self._update_producer(kept)
        return latest_epoch

    def _update_producer(self, kept: deque[tuple[int, int]]) -> None:
        """Read a producer's last batches and update its state; earlier batches do not affect it."""
        for position, size in kept:
            batch = RecordBatch(self._files.read_at(self._segment.log.opened(), size, position))
            aborted = self._producers.update(batch, batch.base_offset)
            if aborted is not None:
                self._aborted.append(aborted)
        kept.clear()
