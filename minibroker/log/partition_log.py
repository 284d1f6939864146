"""One partition's log: appends, offsets that move, and its life.

Each layer below it is one concept with its invariants:

    LogFailures    log_failures.py    a failing file system, an offline log
    ReadableLog    readable_log.py    reads, look-ups; the order of the offsets
    DurableLog     durable_log.py     flushes; the recovery point
    ShrinkingLog   shrinking_log.py   a log start that moves, compaction
    PartitionLog   here               appends, rolls, retention, opening, closing

Layers and no parts behind attributes: an append and a read of the newest segment are one call each, down to the system call.

KafkaError kinds refuse an append or a read, and the log is untouched. Not for several threads: everything runs on the owner's thread but
`Flush.run` and removals.

An append is of a client (`append`), of the broker itself (`append_own`), or the end of a transaction (`end_transaction`). Where
flush.messages asks for a flush, readers see records once they are on the disk, as in Apache Kafka: no client reads records that a power
loss can take back. `_follow_log_end` and `_show` are the only methods that move the offsets that readers see.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.errors import InvalidRecord, KafkaStorageError, RecordListTooLarge
from minibroker.log.deletion import remove_folder
from minibroker.log.flush import Flush
from minibroker.log.loading import LoadedLog, Loader
from minibroker.log.log_config import LONG_MAX, LogConfig
from minibroker.log.produce_rules import produce_rules
from minibroker.log.producer_state import ActiveProducer
from minibroker.log.results import Appended
from minibroker.log.retention import Retention
from minibroker.log.rolling import is_overdue, must_roll, random_jitter_ms
from minibroker.log.shrinking_log import ShrinkingLog
from minibroker.log.transactions import OpenTransaction
from minibroker.log.write_times import WriteTimes
from minibroker.records.batch import NO_TIMESTAMP, RecordBatch, assign_offsets, stamp_log_append_time
from minibroker.records.control import EndTransactionMarker, build_end_transaction_batch
from minibroker.records.long_batch import validate_in_steps
from minibroker.records.steps import Steps
from minibroker.records.validate import validate_at_once
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import delete_folder_name
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import AbortedTxn

IMPLICIT_SINCE = 12  #: the version of Produce whose batches bring their partition into the transaction: transaction version 2
DEFAULT_PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000


class PartitionLog(ShrinkingLog):
    """See `open`; all attributes are for reading."""

    def __init__(
        self, directory: str, loaded: LoadedLog, *, config: LogConfig, files: Files, clock: Clock, background: Background | None
    ) -> None:
        super().__init__(directory, loaded, files=files, clock=clock, background=background)
        self.on_shown: Callable[[], None] | None = None  #: told behind a flush that readers waited for
        self.update_config(config)
        self._retention = Retention(files)
        self._write_times = WriteTimes(clock.now_ms(), self.log_end_offset)
        self.leader_epoch = max(self._epochs.latest, 0)  #: stamped on what is appended
        self._epoch_is_saved = self._epochs.latest >= 0
        self.segments.active.roll_jitter_ms = random_jitter_ms(config)
        self._open_transactions = self._producers.open_transactions
        self._unstable = self._open_transactions.first_offsets  #: true while a transaction is open
        self._follow_log_end()

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
        """Open or create the log of a folder named topic-partition; log/loading.py says what is checked and repaired.

        Raises KafkaStorageError when the file system fails.
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
            raise KafkaStorageError(f"{path}: {error}") from error
        return cls(path, loaded, config=config, files=files, clock=clock, background=background)

    # Appending

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Validate what a producer sent, give it offsets, and write it at once with one call; `data` is written into.

        The caller makes sure that the coordinator knows of a transactional batch's transaction. Raises what records/validate.py and
        `append_batch` raise, with nothing appended; LongBatch: `validating` does it in steps, then `append_validated`.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        now_ms = self._clock.now_ms()
        if data.readonly:
            data = memoryview(bytearray(data))
        rules = self._rules
        batch = validate_at_once(data, rules, now_ms=now_ms, produce_version=produce_version)
        if produce_version is not None and produce_version >= IMPLICIT_SINCE and batch.is_transactional:
            self._producers.check_first_sequence(batch)
        return self.append_batch(batch, now_ms if rules.timestamp_type else NO_TIMESTAMP)

    def validating(self, data: memoryview, *, produce_version: int | None = None) -> Steps[RecordBatch]:
        """Validate a long batch in steps (records/long_batch.py), for `append_validated`; `data` is written into. Raises KafkaError."""
        if data.readonly:
            data = memoryview(bytearray(data))
        return validate_in_steps(data, self._rules, now_ms=self._clock.now_ms, produce_version=produce_version)

    def append_validated(self, batch: RecordBatch, *, produce_version: int | None = None) -> Appended:
        """Append what `validating` returned, as `append` does; the log may have changed meanwhile."""
        if produce_version is not None and produce_version >= IMPLICIT_SINCE and batch.is_transactional:
            self._producers.check_first_sequence(batch)
        return self.append_batch(batch, batch.max_timestamp if batch.timestamp_type else NO_TIMESTAMP)

    def append_batch(self, batch: RecordBatch, log_append_time_ms: int = NO_TIMESTAMP) -> Appended:
        """Append a validated batch: offsets and leader epoch are written into its bytes in place.

        One that its producer sent before is answered with its offsets of then. Raises what log/producer_state.py refuses,
        RecordListTooLarge (larger than a segment); KafkaStorageError.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        if batch.size > self.config.segment_bytes:
            raise self._too_large(batch)
        if batch.producer_id >= 0:
            duplicate = self._producers.check(batch)
            if duplicate is not None:
                time_ms = NO_TIMESTAMP if log_append_time_ms < 0 else duplicate.timestamp
                return Appended(duplicate.base_offset, duplicate.last_offset, time_ms, self.log_start_offset, duplicate=True)
        return self._write(batch, log_append_time_ms)

    def append_own(self, data: bytearray | memoryview) -> Appended:
        """Append a batch of the broker itself: records of the coordinators, and offsets that are committed in a transaction.

        `data` is one batch and is written into. Nothing of it is validated but the producer's epoch and transaction. Raises
        InvalidProducerEpoch, InvalidTxnState, RecordListTooLarge, InvalidRecord (not one batch); KafkaStorageError.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
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
            self._producers.check_own(batch)
        return self._write(batch, log_append_time_ms)

    def end_transaction(self, marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, transaction_version: int) -> Appended:
        """Append the marker that ends a transaction, whether the producer has one open here or not.

        Raises InvalidProducerEpoch, TransactionCoordinatorFenced; KafkaStorageError.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        self._producers.check_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, transaction_version=transaction_version
        )
        now_ms = self._clock.now_ms()
        data = memoryview(build_end_transaction_batch(marker, timestamp=now_ms, producer_id=producer_id, producer_epoch=producer_epoch))
        log_append_time_ms = NO_TIMESTAMP
        if self._rules.timestamp_type:
            log_append_time_ms = now_ms
            stamp_log_append_time(data, now_ms)
        return self._write(RecordBatch(data), log_append_time_ms)

    def _too_large(self, batch: RecordBatch) -> RecordListTooLarge:
        return RecordListTooLarge(f"{batch.size} bytes do not fit into a segment of {self.config.segment_bytes}")

    def _write(self, batch: RecordBatch, log_append_time_ms: int) -> Appended:
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
            raise self._failed(error, is_fatal=hasattr(error, "__notes__")) from error
        if batch.producer_id >= 0:
            aborted = self._producers.update(batch, base_offset)
            if aborted is not None:
                self._note_aborted(aborted)
        self.log_end_offset = last_offset + 1
        if not self.is_synced_before_shown or not self.wants_sync:
            self._follow_log_end()
        return Appended(base_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def _note_aborted(self, aborted: AbortedTxn) -> None:
        """Its marker is in the log: without its entry readers would take the records for committed, so the log must not go on."""
        try:
            self._folder_changes += self._aborted.append(aborted)
        except OSError as error:
            raise self._failed(error, is_fatal=True) from error

    def _follow_log_end(self) -> None:
        self.high_watermark = self.last_stable_offset = self.log_end_offset
        if self._unstable or self.first_unstable_offset is not None:
            self._show(self.log_end_offset, self._open_transactions.oldest)

    def _show(self, end_offset: int, oldest_transaction: int | None) -> None:
        self.high_watermark = self.last_stable_offset = end_offset
        self.first_unstable_offset = None
        if oldest_transaction is not None and oldest_transaction < end_offset:
            self.first_unstable_offset = self.last_stable_offset = max(oldest_transaction, self.log_start_offset)

    def _roll(self) -> Segment:
        """Finish the segment that grows and begin a new one at the log end."""
        self.segments.active.become_inactive()
        self._producers.end_offset = self.log_end_offset
        self._snapshots.take(self._producers, self.log_start_offset)
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
        self._folder_changes += 1
        if self._background is not None:
            self._flush_in_background(self._background, segment.base_offset)
        return segment

    # Offsets that move

    def begin_flush(self, end_offset: int | None = None, *, with_active_indexes: bool = False) -> Flush:
        """As below, and the flush knows which transaction is open: a transaction that ends while it runs has not ended on the disk."""
        flush = super().begin_flush(end_offset, with_active_indexes=with_active_indexes)
        flush.oldest_transaction = self._open_transactions.oldest
        return flush

    def end_flush(self, flush: Flush, error: BaseException | None) -> None:
        """As below; readers see what they waited for."""
        super().end_flush(flush, error)
        if self.high_watermark == self.log_end_offset:
            return
        if not self.wants_sync:
            self._follow_log_end()
        elif flush.end_offset > self.high_watermark:
            self._show(flush.end_offset, flush.oldest_transaction)
        if self.on_shown is not None:
            self.on_shown()

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """This broker leads the partition from log_end_offset on; a lower epoch than the newest is ignored.

        Written with the first append or when the log closes: an epoch without records may be forgotten, and a broker that was killed with
        1,000 partitions starts without writing a file for each.
        """
        with self._watched():
            self._epochs.note(leader_epoch, self.log_end_offset)
        self.leader_epoch = max(leader_epoch, self._epochs.latest)
        self._epoch_is_saved = False

    def _save_epoch(self) -> None:
        self._epochs.assign(self.leader_epoch, self.log_end_offset)
        self._epoch_is_saved = True

    def enforce_retention(self, now_ms: int, *, limit: int | None = None) -> int:
        """Delete the segments, `limit` at most, that log/retention.py finds; how many. One that grows for too long rolls.

        The log start moves at once; the files go when the names of those that stay are on the disk. Raises KafkaStorageError.
        """
        with self._watched():
            if is_overdue(self.segments.active, self.config, now_ms, self._files):
                self._roll()
            below_start, count = self._retention.expired_count(
                list(self.segments),
                self.config,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                log_end_offset=self.log_end_offset,
                now_ms=now_ms,
                limit=limit,
            )
            if count == len(self.segments):
                self._roll()
            self._begin_at(max(self.segments.nth(count).base_offset, self.log_start_offset))
        return count - below_start

    def admit_producers(self, is_allocated: Callable[[int], bool]) -> None:
        """From now on a producer id that the log does not know must have been given out: InitProducerId keeps the account."""
        self._producers.is_allocated = is_allocated

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this very producer has a transaction open here; then its coordinator knows of it."""
        producer = self._producers.producers.get(producer_id)
        return producer is not None and producer.current_txn_first_offset >= 0 and producer.producer_epoch == producer_epoch

    def is_fenced(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a later epoch of the producer was here: an append would be InvalidProducerEpoch."""
        producer = self._producers.producers.get(producer_id)
        return producer is not None and producer.producer_epoch > producer_epoch

    def open_transaction(self, producer_id: int) -> int | None:
        """Where the open transaction of a producer id begins, whatever its epoch."""
        return self._unstable.get(producer_id)

    def open_transactions(self) -> list[OpenTransaction]:
        """All of them, oldest first."""
        producers = self._producers.producers
        return [OpenTransaction(each, producers[each].producer_epoch, offset) for each, offset in self._unstable.items()]

    def coordinator_epoch_of(self, producer_id: int) -> int:
        """The coordinator's epoch in the last marker of a producer id; -1 when none is known."""
        producer = self._producers.producers.get(producer_id)
        return -1 if producer is None else producer.coordinator_epoch

    def active_producers(self) -> list[ActiveProducer]:
        """What is known of each producer, by id."""
        return self._producers.active()

    def remove_expired_producers(self, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long (producer.id.expiration.ms); how many were looked at."""
        now_ms = self._clock.now_ms()
        self._write_times.note(now_ms, self.log_end_offset, expiration_ms)
        self._producers.expiration_ms = expiration_ms
        count = len(self._producers.producers)
        self._producers.remove_expired(now_ms, self._write_times.written_ms)
        return count

    # Life

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from now on; index settings hold from the next segment on."""
        self.config = config
        self._rules = produce_rules(config)
        self.is_synced_before_shown = config.flush_messages < LONG_MAX  #: an append may have to wait for a flush; the hot path reads it

    def close(self, *, clean: bool = True) -> None:
        """Close files; clean: first write and sync what an opening with clean_shutdown=True relies on. Raises KafkaStorageError."""
        if clean:
            self.finish()
            self.flush(with_active_indexes=True)
        self._release("closed")

    def finish(self) -> None:
        """Write what an opening with clean_shutdown=True relies on; nothing is appended any more. Raises KafkaStorageError."""
        with self._watched():
            self._epochs.save()
            self.segments.active.become_inactive()
            self._producers.end_offset = self.log_end_offset
            self._snapshots.take(self._producers, self.log_start_offset)

    # Another folder: see log/copying.py

    def roll(self) -> None:
        """Begin a new segment unless the active one is empty. Raises KafkaStorageError."""
        with self._watched():
            if self.segments.active.size:
                self._roll()

    @property
    def snapshot_offsets(self) -> list[int]:
        """Where there are producer snapshots."""
        return self._snapshots.offsets

    def copy_state(self, folder: str, copied: set[int]) -> None:
        """Write leader epochs and the producer snapshots that are not `copied` yet into another folder; OSError."""
        from minibroker.log.copying import copy_file  # noqa: PLC0415  a start does not need it

        self._epochs.write_to(folder)
        for offset in self._snapshots.offsets:
            if offset not in copied:
                path = self._snapshots.path(offset)
                with suppress(FileNotFoundError):
                    copy_file(self._files, path, folder + path[len(self.directory) :])

    def move(self, directory: str) -> None:
        """Go on in another folder, which has the same files and is synced; nothing was appended since it was made."""
        for segment in self.segments:
            if segment is not self.segments.active:
                segment.release()
            segment.move(directory)
        self._epochs.move(directory)
        self._snapshots.directory = directory
        self.directory = directory
        self.recovery_point = self.log_end_offset
        self._synced_changes = self._folder_changes

    def delete(self) -> None:
        """Rename the folder out of the way at once; its files go after file.delete.delay.ms."""
        parent = self.directory[: -len(self.name)]
        target = parent + delete_folder_name(self.name, os.urandom(16).hex())
        self._release("deleted")
        try:
            self._files.rename(self.directory, target)
        except OSError as error:
            raise self._failed(error) from error
        self._remove_later(lambda: remove_folder(self._files, target))

    def _release(self, why: str) -> None:
        self.is_closed = True
        self.on_shown = None
        for segment in self.segments:
            segment.release()
        if self.offline_cause is None:
            self.offline_cause = OSError(errno.EBADF, f"{self.name} is {why}")
