"""What a log answers. Nothing here moves an offset or writes, but indexes that are made anew.

Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.
"""

from __future__ import annotations

from minibroker.errors import OffsetOutOfRange
from minibroker.log import timestamps
from minibroker.log.aborted_transactions import AbortedTransactions
from minibroker.log.loading import LoadedLog
from minibroker.log.log_failures import LogFailures
from minibroker.log.results import AbortedTransaction, EpochEndOffset, IsolationLevel, TimestampOffset
from minibroker.records.steps import Steps
from minibroker.storage.file_slice import FileSlice
from minibroker.storage.segment import Segment


class ReadableLog(LogFailures):
    """Segments, offsets, leader epochs and producers, as `loaded` gives them and later layers move them."""

    def __init__(self, directory: str, loaded: LoadedLog) -> None:
        super().__init__(directory)
        self.segments = loaded.segments
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.high_watermark = self.last_stable_offset = self.log_end_offset
        self.first_unstable_offset: int | None = None  #: of the oldest transaction that a reader must take for open
        self._epochs = loaded.epochs
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._aborted = AbortedTransactions(loaded.segments, loaded.snapshots, loaded.producers)

    # What there is

    @property
    def size(self) -> int:
        """Bytes of all segments, indexes not counted."""
        return self.segments.size

    @property
    def segment_count(self) -> int:
        """At least one."""
        return len(self.segments)

    @property
    def leader_epochs(self) -> list[tuple[int, int]]:
        """Pairs of epoch and start offset."""
        return self._epochs.entries

    # Reading

    def read(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes:
        """As `slice`, but all bytes are read."""
        data = self.slice(offset, max_bytes, isolation=isolation, min_one=min_one)
        return data if isinstance(data, bytes) else self.read_slice(data)

    def read_slice(self, data: FileSlice) -> bytes:
        """What a slice of this log holds; KafkaStorageError."""
        with self._watched():
            return bytes(data)

    def slice(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes | FileSlice:
        """Whole batches of one segment, the first being the one that holds `offset`; empty at the reader's end.

        At most `max_bytes`, but with `min_one` never less than one batch. Many bytes are not read yet. Raises OffsetOutOfRange below the
        log start and above the log end, CorruptMessage when no batch is where one must be, KafkaStorageError.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        end_offset = self.log_end_offset if isolation is None else self.last_stable_offset if isolation else self.high_watermark
        if not self.log_start_offset <= offset < end_offset:
            if self.log_start_offset <= offset <= self.log_end_offset:
                return b""
            raise OffsetOutOfRange(f"{offset=} is not within {self.log_start_offset} and {self.log_end_offset} of {self.name}")
        try:
            segment = self.segments.active
            if offset >= segment.base_offset:
                end = segment.size if end_offset == self.log_end_offset else self._position_of(segment, end_offset)
                data = segment.read(offset, max_bytes, end, min_one=min_one)
            else:
                data = self._read_older(offset, max_bytes, end_offset, min_one=min_one)
        except OSError as error:
            raise self._failed(error) from error
        if type(data) is FileSlice:
            data.on_failure = self._failed
        return data

    def _read_older(self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool) -> bytes | FileSlice:
        """From the first segment that has a batch at or above `offset`: compaction may have left a segment without."""
        for segment in self.segments.from_offset(offset):
            if segment.base_offset >= end_offset:
                break
            following = self.segments.after(segment)
            next_base_offset = following.base_offset if following else self.log_end_offset
            end = segment.size if next_base_offset <= end_offset else self._position_of(segment, end_offset)
            data = segment.read(offset, max_bytes, end, min_one=min_one)
            if data:
                return data
            if segment.find(offset, end) is not None:
                break  # there is a batch, but not within max_bytes
        return b""

    @staticmethod
    def _position_of(segment: Segment, end_offset: int) -> int:
        """Where the batches that reach `end_offset` begin."""
        header = segment.find(end_offset)
        return segment.size if header is None else header.position

    # Look-ups

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """Return the first record whose timestamp is `timestamp_ms` or later; the caller compares its offset with the reader's end.

        Raises LongBatch when that takes more than a few milliseconds: `finding_timestamp` does it in steps.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        try:
            return timestamps.first_at_or_after(self.segments, timestamp_ms, self.log_start_offset)
        except OSError as error:
            raise self._failed(error) from error

    def finding_timestamp(self, timestamp_ms: int) -> Steps[TimestampOffset | None]:
        """Find in steps (records/steps.py) what `offset_for_timestamp` returns."""
        start_offset = self.log_start_offset
        while True:
            try:
                with self._watched():
                    return timestamps.first_at_or_after(self.segments, timestamp_ms, start_offset)
            except timestamps.LongLookup as long:
                found = yield from long.steps
                if found is not None:
                    return TimestampOffset(*found, long.leader_epoch)
                start_offset = max(long.last_offset + 1, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """Return the record with the largest timestamp; None if no record has a timestamp. LongBatch: `finding_max_timestamp`."""
        with self._watched():
            return timestamps.largest(self.segments, self.log_start_offset)

    def finding_max_timestamp(self) -> Steps[TimestampOffset | None]:
        """Find in steps what `max_timestamp_offset` returns."""
        known: timestamps.Known = {}
        while True:
            try:
                with self._watched():
                    return timestamps.largest(self.segments, self.log_start_offset, known)
            except timestamps.LongLookup as long:
                found = yield from long.steps
                known[long.last_offset] = None if found is None else TimestampOffset(*found, long.leader_epoch)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest known epoch up to `leader_epoch` and where it ends; (-1, -1) when that is not known."""
        return EpochEndOffset(*self._epochs.end_offset_for(leader_epoch, self.log_end_offset))

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, or of what comes there; -1 when none is known."""
        return self._epochs.epoch_at(offset)

    def may_have_aborted(self, first_offset: int) -> bool:
        """Whether what is read from `first_offset` on may have aborted records: False spares looking at it."""
        with self._watched():
            return self._aborted.may_touch(first_offset)

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        """Those that have records within these offsets, both included."""
        with self._watched():
            entries = self._aborted.collect(first_offset, last_offset + 1)
        return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
