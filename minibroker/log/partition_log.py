"""One partition's log: appends, reads, the offsets that readers see, and its life from opening to deletion.

A PartitionLog is composed of parts, which callers reach by name:

    log.failures      failures.py           a failing file system, an offline log
    log.segments      segments.py           the segments by offset and by timestamp
    log.producers     producer_state.py     idempotent and transactional producers, open transactions
    log.aborted       aborted_transactions.py
    log.snapshots     producer_state.py     producer snapshots
    log.epochs        storage/checkpoint_file.py
    log.flusher       flusher.py            flushes, the recovery point
    log.retention     retention.py          deletion of the oldest segments
    log.compaction    compaction.py         removal of superseded records
    log.timestamps    timestamps.py         look-ups by time

loading.py reads a log from its folder, and recovers it after a crash. Appends and reads are in this class and not in a part, so that few
calls lead from it to the system call.

A KafkaError rejects an append or a read, and leaves the log untouched. A log is not thread-safe: everything runs on the owner's thread
except `Flush.run` and deletions of files.

Clients append by `append`, the broker itself by `append_own`, and `end_transaction` appends the end of a transaction. If flush.messages
requires a flush, readers see records only when they are on disk, as in Apache Kafka: no client reads records that a power loss could
remove. Only `_follow_log_end` and `_show` move the high watermark and the last stable offset; `start_at` raises the latter.

Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.errors import InvalidRecord, OffsetOutOfRange, RecordListTooLarge
from minibroker.log.aborted_transactions import AbortedTransactions
from minibroker.log.deletion import remove_folder, remove_later
from minibroker.log.failures import LogFailures, storage_error
from minibroker.log.flusher import Flush, Flusher
from minibroker.log.loading import LoadedLog, Loader
from minibroker.log.log_config import LONG_MAX, LogConfig
from minibroker.log.markers import Markers
from minibroker.log.producer_state import WriteTimes
from minibroker.log.results import AbortedTransaction, Appended, EpochEndOffset, IsolationLevel
from minibroker.log.retention import Retention
from minibroker.log.segments import must_roll, random_jitter_ms
from minibroker.log.timestamps import TimestampLookup
from minibroker.records.batch import NO_TIMESTAMP, RecordBatch, assign_offsets, stamp_log_append_time
from minibroker.records.control import EndTransactionMarker, build_end_transaction_batch
from minibroker.records.long_batch import validate_in_steps
from minibroker.records.steps import Steps
from minibroker.records.validate import validate_at_once
from minibroker.storage.file_slice import FileSlice
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import delete_folder_name, parse_folder_name
from minibroker.storage.segment import Segment, could_not_cut_back
from minibroker.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from minibroker.log.compaction import LogCompaction

IMPLICIT_SINCE: Final = 12  #: the version of Produce whose batches bring their partition into the transaction: transaction version 2
DEFAULT_PRODUCER_ID_EXPIRATION_MS: Final = 24 * 60 * 60 * 1000


class PartitionLog:
    """The log of one partition, created by `open`.

    Other objects only read its attributes, except `on_shown`; `update_config` sets `config`.
    """

    def __init__(
        self, directory: str, loaded: LoadedLog, *, config: LogConfig, files: Files, clock: Clock, background: Background | None
    ) -> None:
        self.directory = directory
        self.name = os.path.basename(directory)  # noqa: PTH119  paths are strings in the storage
        self.topic, self.partition = parse_folder_name(self.name)
        self.segments = loaded.segments
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = self.opened_end_offset = loaded.log_end_offset
        self.markers: Markers | None = None  #: those that were appended since the log was opened; None: there are none
        self.first_unstable_offset: int | None = None  #: of the oldest transaction that readers have to treat as open
        self.held_log_start_offset: int | None = None  #: the log start when `hold` was called; None: new records are shown
        self.epochs = loaded.epochs
        self.producers = loaded.producers
        self.snapshots = loaded.snapshots
        self.aborted = AbortedTransactions(loaded.segments, loaded.snapshots, loaded.producers)
        self.on_shown: Callable[[], None] | None = None  #: called after a flush that readers waited for
        self.update_config(config)
        self._files = files
        self._clock = clock
        self._background = background
        self.failures = LogFailures(directory)
        self.flusher = Flusher(
            self, failures=self.failures, files=files, clock=clock, background=background, recovery_point=loaded.recovery_point
        )
        self.future_segment = -1  #: base offset of the segment whose future timestamp retention has logged
        self._write_times = WriteTimes(clock.now_ms(), self.log_end_offset)
        self.leader_epoch = max(self.epochs.latest, 0)  #: stamped on appended batches
        self._epoch_is_saved = self.epochs.latest >= 0
        self.segments.active.roll_jitter_ms = random_jitter_ms(config)
        self._open_transactions = self.producers.open_transactions
        self._unstable = self._open_transactions.first_offsets  #: not empty while a transaction is open
        self._follow_log_end()

    # Parts that refer to the log are created when they are used: a cycle would be left to the garbage collector.

    @property
    def retention(self) -> Retention:
        """Deletion of the oldest segments."""
        return Retention(self, failures=self.failures, flusher=self.flusher, files=self._files, clock=self._clock)

    @property
    def timestamps(self) -> TimestampLookup:
        """Look-ups by time."""
        return TimestampLookup(self, self.failures)

    @property
    def compaction(self) -> LogCompaction:
        """Removal of superseded records, for topics with cleanup.policy=compact."""
        from minibroker.log.compaction import LogCompaction  # noqa: PLC0415  a start does not need it

        return LogCompaction(self, failures=self.failures, flusher=self.flusher, files=self._files)

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        config: LogConfig,
        files: Files,
        clock: Clock,
        background: Background | None = None,
        clean_shutdown: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        was_compacted: bool = False,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
    ) -> PartitionLog:
        """Open or create the log of a folder named topic-partition; see log/loading.py for what is checked and repaired.

        Raises:
            KafkaStorageError: the file system failed; its `__cause__` is the OSError.
        """
        path = str(directory)
        try:
            if not files.exists(path):
                files.make_directory(path)
            loader = Loader(
                path,
                config=config,
                files=files,
                now_ms=clock.now_ms(),
                log_start_offset=log_start_offset,
                producer_id_expiration_ms=producer_id_expiration_ms,
            )
            loaded = loader.load(clean_shutdown=clean_shutdown, recovery_point=recovery_point, was_compacted=was_compacted)
        except OSError as error:
            raise storage_error(path, error) from error
        return cls(path, loaded, config=config, files=files, clock=clock, background=background)

    # Appending

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Validate a produced batch, assign its offsets in `data`, and write it with one call.

        For a transactional batch, the caller makes sure that the coordinator knows the transaction.

        Raises:
            LongBatch: the caller has to run `validate_in_steps`, then `append_validated`.
            KafkaError: as records/validate.py and `_append_batch`.
        """
        if self.failures.offline_cause is not None:
            raise self.failures.offline_error()
        now_ms = self._clock.now_ms()
        if data.readonly:
            data = memoryview(bytearray(data))
        rules = self._rules
        batch = validate_at_once(data, rules, now_ms=now_ms, produce_version=produce_version)
        if produce_version is not None and produce_version >= IMPLICIT_SINCE and batch.is_transactional:
            self.producers.check_first_sequence(batch)
        return self._append_batch(batch, now_ms if rules.timestamp_type else NO_TIMESTAMP)

    def validate_in_steps(self, data: memoryview, *, produce_version: int | None = None) -> Steps[RecordBatch]:
        """Validate a long batch in steps (records/steps.py), for `append_validated`. Writes into `data`. Raises KafkaError."""
        if data.readonly:
            data = memoryview(bytearray(data))
        return validate_in_steps(data, self._rules, now_ms=self._clock.now_ms, produce_version=produce_version)

    def append_validated(self, batch: RecordBatch, *, produce_version: int | None = None) -> Appended:
        """Append the result of `validate_in_steps`, as `append` does; the log may have changed meanwhile."""
        if self.failures.offline_cause is not None:
            raise self.failures.offline_error()
        if produce_version is not None and produce_version >= IMPLICIT_SINCE and batch.is_transactional:
            self.producers.check_first_sequence(batch)
        return self._append_batch(batch, batch.max_timestamp if batch.timestamp_type else NO_TIMESTAMP)

    def _append_batch(self, batch: RecordBatch, log_append_time_ms: int = NO_TIMESTAMP) -> Appended:
        """Append a validated batch: write offsets and leader epoch into its bytes.

        For a batch that its producer has sent before, it returns the earlier offsets.

        Raises:
            RecordListTooLarge: it is larger than a segment.
            KafkaError: as log/producer_state.py.
            KafkaStorageError: the file system failed.
        """
        if batch.size > self.config.segment_bytes:
            raise self._too_large(batch)
        if batch.producer_id >= 0:
            duplicate = self.producers.check(batch)
            if duplicate is not None:
                time_ms = NO_TIMESTAMP if log_append_time_ms < 0 else duplicate.timestamp
                return Appended(duplicate.base_offset, duplicate.last_offset, time_ms, self.log_start_offset, duplicate=True)
        return self._write(batch, log_append_time_ms)

    def append_own(self, data: bytearray | memoryview) -> Appended:
        """Append one batch of the broker itself: records of a coordinator, or offsets that a transaction commits. Changes `data`.

        Only the producer's epoch and transaction are checked.

        Raises:
            InvalidProducerEpoch, InvalidTxnState: as log/producer_state.py.
            InvalidRecord: `data` is not one batch.
            RecordListTooLarge: it is larger than a segment.
            KafkaStorageError: the file system failed.
        """
        if self.failures.offline_cause is not None:
            raise self.failures.offline_error()
        batch = RecordBatch(data)
        if batch.size != len(data):
            raise InvalidRecord(f"{len(data)} bytes for {self.name} are not one batch: the first one has {batch.size}")
        log_append_time_ms = NO_TIMESTAMP
        if self._rules.timestamp_type:
            log_append_time_ms = self._clock.now_ms()
            stamp_log_append_time(memoryview(data), log_append_time_ms)
            batch = RecordBatch(data)
        if batch.size > self.config.segment_bytes:
            raise self._too_large(batch)
        if batch.producer_id >= 0:
            self.producers.check_own(batch)
        return self._write(batch, log_append_time_ms)

    def end_transaction(self, marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, transaction_version: int) -> Appended:
        """Append the marker that ends a transaction, whether the producer has one open here or not.

        Raises:
            InvalidProducerEpoch, TransactionCoordinatorFenced: as log/producer_state.py.
            KafkaStorageError: the file system failed.
        """
        if self.failures.offline_cause is not None:
            raise self.failures.offline_error()
        self.producers.check_marker(marker, producer_id=producer_id, producer_epoch=producer_epoch, transaction_version=transaction_version)
        now_ms = self._clock.now_ms()
        data = memoryview(build_end_transaction_batch(marker, timestamp=now_ms, producer_id=producer_id, producer_epoch=producer_epoch))
        log_append_time_ms = NO_TIMESTAMP
        if self._rules.timestamp_type:
            log_append_time_ms = now_ms
            stamp_log_append_time(data, now_ms)
        appended = self._write(RecordBatch(data), log_append_time_ms, marker)
        if self.markers is None:
            self.markers = Markers(self.opened_end_offset)
        self.markers.add(appended.base_offset)
        return appended

    def _too_large(self, batch: RecordBatch) -> RecordListTooLarge:
        return RecordListTooLarge(f"{batch.size} bytes do not fit into a segment of {self.config.segment_bytes}")

    def _write(self, batch: RecordBatch, log_append_time_ms: int, marker: EndTransactionMarker | None = None) -> Appended:
        base_offset = self.log_end_offset
        last_offset = base_offset + batch.last_offset_delta
        assign_offsets(batch.data, base_offset, self.leader_epoch)
        try:
            if not self._epoch_is_saved:
                self._save_epoch()
            segment = self.segments.active
            if segment.size and must_roll(segment, self.config, batch, last_offset, self._clock):
                segment = self._roll()
            segment.append(batch, base_offset, last_offset)
        except OSError as error:
            raise self.failures.failed(error, is_fatal=could_not_cut_back(error)) from error
        if batch.producer_id >= 0:
            aborted = self.producers.update(batch, base_offset, marker)
            if aborted is not None:
                self._note_aborted(aborted)
        self.log_end_offset = last_offset + 1
        if not self.is_synced_before_shown or not self.wants_sync:
            self._follow_log_end()
        return Appended(base_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def _note_aborted(self, aborted: AbortedTxn) -> None:
        """Index an abort whose marker was just appended. Without the entry, readers would treat its records as committed."""
        try:
            self.flusher.folder_changes += self.aborted.append(aborted)
        except OSError as error:
            raise self.failures.failed(error, is_fatal=True) from error

    def _follow_log_end(self) -> None:
        """Make all appended records visible, except those of open transactions to readers of committed ones."""
        if self.held_log_start_offset is not None:
            return
        self.high_watermark = self.last_stable_offset = self.log_end_offset
        if self._unstable or self.first_unstable_offset is not None:
            self._show(self.log_end_offset, self._open_transactions.oldest)

    def _show(self, end_offset: int, oldest_transaction: int | None) -> None:
        """Show records below `end_offset`: set the high watermark, and the last stable offset (LSO) where open transactions start."""
        self.high_watermark = self.last_stable_offset = end_offset
        self.first_unstable_offset = None
        if oldest_transaction is not None and oldest_transaction < end_offset:
            self.first_unstable_offset = self.last_stable_offset = max(oldest_transaction, self.log_start_offset)

    def hold(self) -> None:
        """Keep the high watermark and the last stable offset until `release`, as if followers did not fetch."""
        if self.held_log_start_offset is None:
            self.held_log_start_offset = self.log_start_offset

    def release(self) -> None:
        """Move the high watermark to the log end; does nothing if it is not held."""
        if self.held_log_start_offset is not None:
            self.held_log_start_offset = None
            self._follow_log_end()

    @property
    def wants_sync(self) -> bool:
        """Whether flush.messages requires a flush before the last append is acknowledged."""
        return self.is_synced_before_shown and self.log_end_offset - self.flusher.recovery_point >= self.config.flush_messages

    def show_flushed(self, flush: Flush) -> None:
        """Show readers the records that waited for `flush`. A transaction that ended during the flush has not ended on disk."""
        if self.high_watermark == self.log_end_offset or self.held_log_start_offset is not None:
            return
        if not self.wants_sync:
            self._follow_log_end()
        elif flush.end_offset > self.high_watermark:
            self._show(flush.end_offset, flush.oldest_transaction)
        if self.on_shown is not None:
            self.on_shown()

    def roll(self) -> None:
        """Start a new segment unless the active one is empty. Raises KafkaStorageError."""
        with self.failures.watched():
            if self.segments.active.size:
                self._roll()

    def _roll(self) -> Segment:
        self.segments.active.become_inactive()
        self.producers.end_offset = self.log_end_offset
        self.snapshots.take(self.producers, self.log_start_offset)
        segment = Segment.create(
            self._files,
            self.directory,
            self.log_end_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            index_max_bytes=self.config.segment_index_bytes,
            created_ms=self._clock.now_ms(),
            roll_jitter_ms=random_jitter_ms(self.config),
        )
        self.segments.add(segment)
        self.flusher.folder_changes += 1
        self.flusher.flush_closed_segments(segment.base_offset)
        return segment

    # Reading

    def read(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes:
        """Return the bytes of `slice`."""
        data = self.slice(offset, max_bytes, isolation=isolation, min_one=min_one)
        return data if isinstance(data, bytes) else self.read_slice(data)

    def read_slice(self, data: FileSlice) -> bytes:
        """Return the bytes of a slice of this log. Raises KafkaStorageError."""
        with self.failures.watched():
            return bytes(data)

    def slice(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes | FileSlice:
        """Return whole batches of one segment, from the one that holds `offset` on; empty at the reader's end.

        Returns at most `max_bytes`, but with `min_one` at least one batch. Many bytes are returned
        as a FileSlice, which is not read yet. `isolation` None reads up to the log end.

        Raises:
            OffsetOutOfRange: `offset` is below the log start or above the log end.
            CorruptMessage: a batch is damaged.
            KafkaStorageError: the file system failed.
        """
        if self.failures.offline_cause is not None:
            raise self.failures.offline_error()
        end_offset = self.log_end_offset if isolation is None else self.last_stable_offset if isolation else self.high_watermark
        if not self.log_start_offset <= offset < end_offset:
            if self.log_start_offset <= offset <= self.log_end_offset:
                return b""
            raise OffsetOutOfRange(f"{offset=} is not within {self.log_start_offset} and {self.log_end_offset} of {self.name}")
        try:
            segment = self.segments.active
            if offset >= segment.base_offset:
                end = segment.size if end_offset == self.log_end_offset else _position_of(segment, end_offset)
                data = segment.read(offset, max_bytes, end, min_one=min_one)
            else:
                data = self._read_older(offset, max_bytes, end_offset, min_one=min_one)
        except OSError as error:
            raise self.failures.failed(error) from error
        if type(data) is FileSlice:
            data.on_failure = self.failures.failed
        return data

    def _read_older(self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool) -> bytes | FileSlice:
        """Read from the first segment with a batch at or above `offset`: compaction may have left a segment without one."""
        for segment in self.segments.from_offset(offset):
            if segment.base_offset >= end_offset:
                break
            following = self.segments.after(segment)
            next_base_offset = following.base_offset if following else self.log_end_offset
            end = segment.size if next_base_offset <= end_offset else _position_of(segment, end_offset)
            data = segment.read(offset, max_bytes, end, min_one=min_one)
            if data:
                return data
            if segment.find(offset, end) is not None:
                break  # there is a batch, but not within max_bytes
        return b""

    def may_have_aborted(self, first_offset: int) -> bool:
        """Whether records from `first_offset` on may be aborted. If not, the caller need not call `aborted_transactions`."""
        with self.failures.watched():
            return self.aborted.may_touch(first_offset)

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that have records within these offsets, both included."""
        with self.failures.watched():
            entries = self.aborted.collect(first_offset, last_offset + 1)
        return [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """Return the largest known epoch up to `leader_epoch` and its end; (-1, -1) if there is none."""
        return EpochEndOffset(*self.epochs.end_offset_for(leader_epoch, self.log_end_offset))

    # Epochs, the log start, producers

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """Start a leader epoch at log_end_offset; one below the newest is ignored.

        It is written with the first append or when the log closes. An epoch without records may be lost. So a broker with 1,000 partitions
        that was killed starts without writing a file for each.
        """
        with self.failures.watched():
            self.epochs.note(leader_epoch, self.log_end_offset)
        self.leader_epoch = max(leader_epoch, self.epochs.latest)
        self._epoch_is_saved = False

    def _save_epoch(self) -> None:
        self.epochs.assign(self.leader_epoch, self.log_end_offset)
        self._epoch_is_saved = True

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete the records below `offset`, and segments without others; does nothing if `offset` is not above the log start.

        The caller writes the log start offset checkpoint.

        Raises:
            OffsetOutOfRange: `offset` is above the high watermark.
            KafkaStorageError: the file system failed.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset=} is above the high watermark {self.high_watermark} of {self.name}")
        if offset <= self.log_start_offset:
            return
        with self.failures.watched():
            self.start_at(offset)

    def start_at(self, offset: int) -> None:
        """Move the log start to `offset` unless it is higher, and delete the segments below it. Raises OSError."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.last_stable_offset = max(self.last_stable_offset, offset)
            if self.first_unstable_offset is not None:
                self.first_unstable_offset = max(self.first_unstable_offset, offset)
            self.epochs.truncate_from_start(offset)
        self.retention.delete_below_start()

    def remove_expired_producers(self, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for `expiration_ms` (producer.id.expiration.ms). Returns how many were checked."""
        now_ms = self._clock.now_ms()
        self._write_times.note(now_ms, self.log_end_offset, expiration_ms)
        self.producers.expiration_ms = expiration_ms
        count = len(self.producers.producers)
        self.producers.remove_expired(now_ms, self._write_times.written_ms)
        return count

    # Configuration, closing, moving, deleting

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from now on; index settings apply from the next segment on."""
        self.config = config
        self._rules = config.produce_rules()
        self.is_synced_before_shown = config.flush_messages < LONG_MAX  #: an append may have to wait for a flush; the hot path reads it

    def close(self, *, clean: bool = True) -> None:
        """Close the files.

        If `clean`, first sync everything, so that the next `open` can use clean_shutdown=True.
        Raises KafkaStorageError.
        """
        if clean:
            self.finish()
            self.flusher.flush(with_active_indexes=True)
        self._release("closed")

    def finish(self) -> None:
        """Write everything that `open` with clean_shutdown=True needs. Nothing may be appended afterwards. Raises KafkaStorageError."""
        with self.failures.watched():
            self.epochs.save()
            self.segments.active.become_inactive()
            self.producers.end_offset = self.log_end_offset
            self.snapshots.take(self.producers, self.log_start_offset)

    def move(self, directory: str) -> None:
        """Continue in another folder (log/copying.py), which has the same files, all of them synced."""
        for segment in self.segments:
            if segment is not self.segments.active:
                segment.release()
            segment.move(directory)
        self.epochs.move(directory)
        self.snapshots.directory = self.failures.directory = self.directory = directory
        self.flusher.note_moved()

    def delete(self) -> None:
        """Rename the folder; its files are removed after file.delete.delay.ms. Raises KafkaStorageError."""
        parent = self.directory[: -len(self.name)]
        target = parent + delete_folder_name(self.name, os.urandom(16).hex())
        self._release("deleted")
        self.flusher.forget_log()
        try:
            self._files.rename(self.directory, target)
        except OSError as error:
            raise self.failures.failed(error) from error
        self.remove_later(lambda: remove_folder(self._files, target))

    def remove_later(self, work: Callable[[], None]) -> None:
        """Run `work`, a removal of files, off the loop after file.delete.delay.ms."""
        remove_later(work, delay_ms=self.config.file_delete_delay_ms, clock=self._clock, background=self._background)

    def _release(self, state: str) -> None:
        self.failures.note_closed(state)
        self.on_shown = None
        for segment in self.segments:
            segment.release()


def _position_of(segment: Segment, end_offset: int) -> int:
    """Return the position of the first batch that reaches `end_offset`."""
    header = segment.find(end_offset)
    return segment.size if header is None else header.position


def truncated(
    log: PartitionLog,
    end_offset: int,
    *,
    files: Files,
    clock: Clock,
    background: Background,
    was_compacted: bool,
    producer_id_expiration_ms: int,
) -> PartitionLog:
    """Return the log without its records from `end_offset` on, as when Apache Kafka elects a leader that lacks them; `log` is closed.

    The rest is opened as after a crash, so that indexes, producers and leader epochs are those of the remaining records. A crash during
    the call leaves a log with a later end.

    Raises:
        KafkaStorageError: the file system failed; the log is closed.
        CorruptLogError: the rest cannot be opened.
        OSError: the file system failed; the log is closed.
    """
    end_offset = max(end_offset, log.log_start_offset)
    segment = log.segments.floor(end_offset)
    header = segment.find(end_offset)
    position = segment.size if header is None else header.position
    later = [each for each in log.segments.from_offset(end_offset) if each is not segment]
    log.close()
    for each in reversed(later):
        for path in each.paths():
            if files.exists(path):
                files.remove(path)
    segment.truncate(position)
    segment.release()
    return PartitionLog.open(
        log.directory,
        config=log.config,
        files=files,
        clock=clock,
        background=background,
        recovery_point=min(log.flusher.recovery_point, segment.base_offset),
        log_start_offset=log.log_start_offset,
        was_compacted=was_compacted,
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
