"""One partition's log: appends, reads, look-ups, and what happens when the file system fails.

Invariant: log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset. Not for several threads: everything runs on the
owner's thread but `Flush.run` and removals, which own what they touch.

Errors. KafkaError kinds refuse an append or a read, and the log is untouched. When a file system call fails, the caller gets
KafkaStorageError (its `__cause__` is the OSError) and `on_storage_error` is told, once a failure: who owns the log directory decides
what that means for its other logs. After a failed fsync, or a failed write that could not be cut off again, nobody knows what the file
holds: the log is offline, `offline_cause` says why, and every call raises KafkaStorageError until it is opened anew.

Places for later: transactions move last_stable_offset in `_follow_log_end`.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from minibroker.background import Background, InlineBackground
from minibroker.clock import Clock
from minibroker.errors import InvalidTxnState, KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from minibroker.log import timestamps
from minibroker.log.deletion import remove_files, remove_folder, remove_later
from minibroker.log.flush import Flush
from minibroker.log.loading import Loader
from minibroker.log.log_config import LogConfig
from minibroker.log.produce_rules import produce_rules
from minibroker.log.results import AbortedTransaction, Appended, EpochEndOffset, IsolationLevel, TimestampOffset
from minibroker.log.retention import Retention
from minibroker.log.rolling import is_overdue, must_roll, random_jitter_ms
from minibroker.log.write_times import WriteTimes
from minibroker.records.batch import NO_TIMESTAMP, RecordBatch, assign_offsets
from minibroker.records.validate import validate_produced
from minibroker.storage.files import OUT_OF_DESCRIPTORS, Files
from minibroker.storage.log_file_names import delete_folder_name, parse_folder_name
from minibroker.storage.segment import Segment

if TYPE_CHECKING:
    from minibroker.log.compaction import Cleanable, Compacted, Compaction

logger = logging.getLogger(__name__)

DEFAULT_PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000


class PartitionLog:
    """See `open`; all attributes are for reading."""

    def __init__(
        self,
        directory: str,
        *,
        config: LogConfig,
        files: Files,
        clock: Clock,
        background: Background | None,
        clean_shutdown: bool,
        recovery_point: int,
        log_start_offset: int,
        was_compacted: bool,
        producer_id_expiration_ms: int,
    ) -> None:
        self.directory = directory
        self.name = os.path.basename(directory)  # noqa: PTH119  paths are strings in the storage
        self.topic, self.partition = parse_folder_name(self.name)
        self.update_config(config)
        self._files = files
        self._clock = clock
        self._background = background
        loader = Loader(
            directory,
            config=config,
            files=files,
            now_ms=clock.now_ms(),
            log_start_offset=log_start_offset,
            producer_id_expiration_ms=producer_id_expiration_ms,
        )
        loaded = loader.load(clean_shutdown=clean_shutdown, recovery_point=recovery_point, was_compacted=was_compacted)
        self.segments = loaded.segments
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        self.recovery_point = loaded.recovery_point  #: all below is on the disk
        self._producers = loaded.producers
        self._snapshots = loaded.snapshots
        self._epochs = loaded.epochs
        self._retention = Retention(files)
        self._write_times = WriteTimes(clock.now_ms(), self.log_end_offset)
        self._deletion_waits = False  #: for a sync of the folder
        self._is_held = False
        self.high_watermark = self.last_stable_offset = self.log_end_offset
        self.leader_epoch = max(self._epochs.latest, 0)  #: stamped on what is appended
        self._epoch_is_saved = self._epochs.latest >= 0
        self._last_flush_ms = clock.now_ms()
        self._folder_changes = 1  #: how often files appeared in the folder, or the folder itself
        self._synced_changes = 0
        self.segments.active.roll_jitter_ms = random_jitter_ms(self.config)
        self.is_closed = False
        self.offline_cause: OSError | None = None
        self.on_storage_error: Callable[[PartitionLog, OSError], None] | None = None

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
            files.make_directory(path)
            return cls(
                path,
                config=config,
                files=files,
                clock=clock,
                background=background,
                clean_shutdown=clean_shutdown,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                was_compacted=was_compacted,
                producer_id_expiration_ms=producer_id_expiration_ms,
            )
        except OSError as error:
            raise KafkaStorageError(f"{path}: {error}") from error

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
    def unflushed_messages(self) -> int:
        """How many records a power loss could take."""
        return self.log_end_offset - self.recovery_point

    @property
    def leader_epochs(self) -> list[tuple[int, int]]:
        """Pairs of epoch and start offset."""
        return self._epochs.entries

    # Appending

    def append(self, data: memoryview, *, produce_version: int | None = None) -> Appended:
        """Validate what a producer sent, give it offsets, and write it at once with one call; `data` is written into.

        Raises what records/validate.py and `append_batches` raise, with nothing appended.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        now_ms = self._clock.now_ms()
        if data.readonly:
            data = memoryview(bytearray(data))
        rules = self._rules
        batch = validate_produced(data, rules, now_ms=now_ms, produce_version=produce_version)
        if batch.is_transactional:
            raise InvalidTxnState("transactions are not served")
        log_append_time_ms = now_ms if rules.timestamp_type else NO_TIMESTAMP
        return self.append_batches(batch.data, (batch,), log_append_time_ms=log_append_time_ms)

    def append_batches(self, data: memoryview, batches: Sequence[RecordBatch], *, log_append_time_ms: int = NO_TIMESTAMP) -> Appended:
        """Append validated `batches`, which `data` is end to end: offsets and leader epoch are written into it in place.

        A batch that its producer sent before is answered with its offsets of then. Raises OutOfOrderSequenceNumber,
        InvalidProducerEpoch, RecordListTooLarge (larger than a segment); KafkaStorageError.
        """
        if self.offline_cause is not None:
            raise self._offline_error()
        size = len(data)
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(f"{size} bytes do not fit into a segment of {self.config.segment_bytes}")
        base_offset = next_offset = self.log_end_offset
        max_timestamp = NO_TIMESTAMP
        has_producer = False
        position = 0
        for batch in batches:
            assign_offsets(data[position:] if position else data, next_offset, self.leader_epoch)
            position += batch.size
            next_offset += batch.last_offset_delta + 1
            if batch.producer_id >= 0:
                has_producer = True
            max_timestamp = max(max_timestamp, batch.max_timestamp)
        if has_producer:
            duplicate = self._producers.check(batches)
            if duplicate is not None:
                time_ms = NO_TIMESTAMP if log_append_time_ms < 0 else duplicate.timestamp
                return Appended(duplicate.base_offset, duplicate.last_offset, time_ms, self.log_start_offset, duplicate=True)
        try:
            if not self._epoch_is_saved:
                self._save_epoch()
            segment = self.segments.active
            if segment.size and must_roll(segment, self.config, size, next_offset - 1, max_timestamp, clock=self._clock):
                segment = self._roll()
            segment.append(data, batches, base_offset)
        except OSError as error:
            raise self._failed(error, is_fatal=hasattr(error, "__notes__")) from error
        if has_producer:
            self._note_producers(batches, base_offset)
        self.log_end_offset = next_offset
        if not self._is_held:
            self._follow_log_end()
        return Appended(base_offset, next_offset - 1, log_append_time_ms, self.log_start_offset)

    def _note_producers(self, batches: Sequence[RecordBatch], offset: int) -> None:
        for batch in batches:
            if batch.producer_id >= 0:
                self._producers.update(batch, offset)
            offset += batch.last_offset_delta + 1

    def _follow_log_end(self) -> None:
        self.high_watermark = self.last_stable_offset = self.log_end_offset

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
            self._flush_rolled(self._background, segment.base_offset)
        return segment

    def _flush_rolled(self, background: Background, end_offset: int) -> None:
        """Sync what is complete. Only deletions wait for it: a failure is logged, and the log is offline then."""
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
                if self._deletion_waits:
                    self._delete_below_start()

        background.submit(flush.run, done)

    # Reading

    def read(self, offset: int, max_bytes: int, *, isolation: IsolationLevel | None, min_one: bool = True) -> bytes | memoryview:
        """Whole batches of one segment, the first being the one that holds `offset`; empty at the reader's end.

        At most `max_bytes`, but with `min_one` never less than one batch. Raises OffsetOutOfRange below the log start and above the
        log end, CorruptMessage when no batch is where one must be, KafkaStorageError.
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
                if end_offset == self.log_end_offset:
                    return segment.read(offset, max_bytes, segment.size, min_one=min_one)
                return segment.read(offset, max_bytes, self._position_of(segment, end_offset), min_one=min_one)
            return self._read_older(offset, max_bytes, end_offset, min_one=min_one)
        except OSError as error:
            raise self._failed(error) from error

    def _read_older(self, offset: int, max_bytes: int, end_offset: int, *, min_one: bool) -> bytes | memoryview:
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
        """The first record whose timestamp is `timestamp_ms` or later; the caller compares its offset with the reader's end."""
        with self._watched():
            return timestamps.first_at_or_after(self.segments, timestamp_ms, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The record with the largest timestamp; None when there is none with a timestamp."""
        with self._watched():
            return timestamps.largest(self.segments, self.log_start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset:
        """The largest known epoch up to `leader_epoch` and where it ends; (-1, -1) when that is not known."""
        return EpochEndOffset(*self._epochs.end_offset_for(leader_epoch, self.log_end_offset))

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of the record at `offset`, or of what comes there; -1 when none is known."""
        return self._epochs.epoch_at(offset)

    def aborted_transactions(self, first_offset: int, last_offset: int) -> list[AbortedTransaction]:
        """Those that have records within these offsets, both included."""
        found = []
        with self._watched():
            for segment in self.segments.from_offset(first_offset):
                entries, is_complete = segment.transaction_index.collect(first_offset, last_offset + 1)
                found += [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
                if is_complete:
                    break
        return found

    # Offsets that move

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

    def advance_log_start_offset(self, offset: int) -> None:
        """Forget records below `offset`, and delete segments that hold only such; a lower offset moves nothing.

        Raises OffsetOutOfRange above the high watermark. The log start offset checkpoint is the cluster's to write.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset=} is above the high watermark {self.high_watermark} of {self.name}")
        if offset <= self.log_start_offset:
            return
        with self._watched():
            self._begin_at(offset)

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

    def _begin_at(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._epochs.truncate_from_start(offset)
        if self.segments.floor(offset).base_offset > self.segments.nth(0).base_offset:
            self._delete_below_start()

    def _delete_below_start(self) -> None:
        """Of a log that lost the name of its newest segment, and older ones too, nobody would know where it ended."""
        self._deletion_waits = self._synced_changes < self._folder_changes
        if self._deletion_waits:
            self._flush_rolled(self._background or InlineBackground(), self.log_end_offset)
            return
        with self._watched():
            taken = self.segments.take_below(self.log_start_offset)
            paths = [path for segment in taken for path in segment.mark_deleted()]
            paths += self._snapshots.retire_below(min(self.segments.nth(0).base_offset, self.log_start_offset))
        self._remove_later(lambda: remove_files(self._files, paths))

    def _remove_later(self, work: Callable[[], None]) -> None:
        remove_later(work, delay_ms=self.config.file_delete_delay_ms, clock=self._clock, background=self._background)

    def hold_high_watermark(self) -> None:
        """Let the high watermark stay where it is while the log grows: for tests of readers."""
        self._is_held = True

    def release_high_watermark(self) -> None:
        """Let it follow the log end again."""
        self._is_held = False
        self._follow_log_end()

    def admit_producers(self, is_allocated: Callable[[int], bool]) -> None:
        """From now on a producer id that the log does not know must have been given out: InitProducerId keeps the account."""
        self._producers.is_allocated = is_allocated

    def remove_expired_producers(self, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for so long (producer.id.expiration.ms); how many were looked at."""
        now_ms = self._clock.now_ms()
        self._write_times.note(now_ms, self.log_end_offset, expiration_ms)
        self._producers.expiration_ms = expiration_ms
        count = len(self._producers.producers)
        self._producers.remove_expired(now_ms, self._write_times.written_ms)
        return count

    # Compaction: see log/compaction.py

    def cleanable(self, first_dirty_offset: int, now_ms: int) -> Cleanable:
        """How much lies below and above `first_dirty_offset`, which is within the log."""
        from minibroker.log.compaction import measure  # noqa: PLC0415  a start does without

        with self._watched():
            return measure(self.segments, self.config, first_dirty_offset, self.last_stable_offset, now_ms)

    def begin_compaction(self, first_dirty_offset: int, now_ms: int, *, offset_map_bytes: int) -> Compaction | None:
        """A plan for all that is cleanable; None when nothing is. Only one may be at work at one time."""
        from minibroker.log.compaction import make_plan  # noqa: PLC0415  a start does without

        found = self.cleanable(first_dirty_offset, now_ms)
        if not found.dirty_bytes:
            return None
        with self._watched():
            end_offset, producers = found.first_uncleanable_offset, self._producers.producers
            return make_plan(self.segments, self.config, producers, first_dirty_offset, end_offset, now_ms, offset_map_bytes)

    def end_compaction(self, compacted: Compacted) -> bool:
        """Let what a plan's run wrote replace what it was made from; False when that has changed meanwhile.

        Not synced: the folder must be before anybody relies on `compacted.next_dirty_offset`. A failure takes the log offline.
        """
        from minibroker.log.swapping import remove_replaced, swap_all  # noqa: PLC0415  a start does without

        if self.offline_cause is not None:
            return False
        try:
            paths = swap_all(self._files, self.segments, self._snapshots, compacted.groups, self.config)
        except OSError as error:
            raise self._failed(error, is_fatal=True) from error
        if paths is None:
            return False
        self._folder_changes += 1
        self._remove_later(lambda: remove_replaced(self._files, self.directory, paths))
        return True

    # Durability

    def flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for a flush; a clock that was set back must not put it off."""
        unflushed = self.log_end_offset - self.recovery_point
        return unflushed >= self.config.flush_messages or (unflushed > 0 and abs(now_ms - self._last_flush_ms) >= self.config.flush_ms)

    def begin_flush(self, end_offset: int | None = None, *, with_active_indexes: bool = False) -> Flush:
        """Collect what is to be synced so that all below `end_offset` (the log end) is on the disk; see log/flush.py."""
        end_offset = self.log_end_offset if end_offset is None else end_offset
        with self._watched():
            segments = [segment for segment in self.segments.from_offset(self.recovery_point) if segment.base_offset < end_offset]
            indexed = [segment for segment in segments if with_active_indexes or segment is not self.segments.active]
            for segment in indexed:
                segment.save_indexes()
            index_paths = [path for segment in indexed for path in segment.paths()[1:]]
            directories = [self.directory] if self._synced_changes < self._folder_changes else []
            if not self._synced_changes:
                directories.append(os.path.dirname(self.directory) or ".")  # noqa: PTH120  paths are strings in the storage
            self._last_flush_ms = self._clock.now_ms()
            return Flush(
                self._files,
                segments,
                end_offset=end_offset,
                index_paths=index_paths,
                directories=directories,
                folder_changes=self._folder_changes,
            )

    def end_flush(self, flush: Flush, error: BaseException | None) -> None:
        """Take over what `flush.run` came to. A failure takes the log offline and raises KafkaStorageError."""
        flush.close()
        if error is None and self.offline_cause is None:
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

    # Life

    def update_config(self, config: LogConfig) -> None:
        """Use another configuration from now on; index settings hold from the next segment on."""
        self.config = config
        self._rules = produce_rules(config)

    def close(self, *, clean: bool = True) -> None:
        """Close files; clean: first write and sync what an opening with clean_shutdown=True relies on. Raises KafkaStorageError."""
        if clean:
            with self._watched():
                self._epochs.save()
                self.segments.active.become_inactive()
                self._producers.end_offset = self.log_end_offset
                self._snapshots.take(self._producers, self.log_start_offset)
            self.flush(with_active_indexes=True)
        self._release("closed")

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
        for segment in self.segments:
            segment.release()
        if self.offline_cause is None:
            self.offline_cause = OSError(errno.EBADF, f"{self.name} is {why}")

    # Failures

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """What every call does about an offline log and a failing file system; the hot ones do it by hand."""
        if self.offline_cause is not None:
            raise self._offline_error()
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError, *, is_fatal: bool = False) -> KafkaStorageError:
        logger.error("%s: %s%s", self.directory, error, "; the partition is offline" if is_fatal else "")
        if is_fatal and self.offline_cause is None:
            self.offline_cause = error
        if self.on_storage_error is not None:
            self.on_storage_error(self, error)
        return KafkaStorageError(f"{self.name}: {error}")

    def _offline_error(self) -> KafkaStorageError:
        return KafkaStorageError(f"{self.name} is offline: {self.offline_cause}")
