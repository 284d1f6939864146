"""`__cluster_metadata-0`: topics, partitions, configs and producer ids as KRaft records; the one source of truth, replayed at start.

    00000000000000000000.log   record batches: a LeaderChange control batch at the begin of each epoch, then metadata records
    quorum-state               leader and epoch
    partition.metadata         the reserved topic id 00000000-0000-0000-0000-000000000001
    leader-epoch-checkpoint    where each epoch begins

Invariants:
- A record is applied to memory only after its batch was fsynced: an administrator's answer survives a power loss. These are rare
  operations; one fsync each, on the caller's thread.
- One batch is one operation: it is there whole or not at all. Batches of Kafka's between BeginTransaction and EndTransaction records
  count together.
- What follows the last whole batch is cut at start. A damaged batch with whole batches behind it is no torn tail: then the
  broker refuses to start rather than forget topics.

There is no offset index: the log is only read whole, at start, and Kafka builds its own.
Not done: reading Kafka's snapshots (`*.checkpoint`), once Kafka has deleted the segments before them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.metadata_frame import METADATA_VERSION, decode_frame, encode_frame, leader_change
from minibroker.cluster.quorum_state import NAME as QUORUM_STATE
from minibroker.cluster.quorum_state import read_quorum_state, write_quorum_state
from minibroker.errors import ConfigurationError, CorruptMessage, KafkaError, KafkaStorageError, WireError
from minibroker.records.batch import RecordBatch, assign_offsets
from minibroker.records.builder import build_batch
from minibroker.records.record import Record, decode_records
from minibroker.schemas.internal.log_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord, NoOpRecord
from minibroker.storage.files import APPEND, Files, read_all, write_all
from minibroker.storage.leader_epoch_checkpoint import NAME as LEADER_EPOCHS
from minibroker.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from minibroker.storage.log_file_names import LOG, file_name, parse_file_name
from minibroker.storage.partition_metadata import NAME as PARTITION_METADATA
from minibroker.storage.partition_metadata import write_topic_id

_LOG = logging.getLogger(__name__)

FOLDER = "__cluster_metadata-0"
METADATA_TOPIC_ID = UUID(int=1)
RECORDS_IN_BATCH_MAX = 10_000  #: as Kafka's controller: an operation that needs more is refused
BATCH_BYTES_MAX = 8 * 1024 * 1024  #: decompression bound of a batch of Kafka's (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)


class MetadataLog:
    """The log of one node's metadata. `replay` first, once; then `append`."""

    def __init__(self, files: Files, folder: str, *, node_id: int, clock: Clock) -> None:
        self._files = files
        self._folder = folder
        self._node_id = node_id
        self._clock = clock
        self._descriptor = -1
        self._size = 0  #: bytes of the last segment, all whole batches
        self._leads = False  #: whether this process has begun its epoch
        self._failure: OSError | None = None  #: a failed write or fsync that could not be undone: nothing is appended any more
        self._epochs = LeaderEpochCheckpoint(files, f"{folder}/{LEADER_EPOCHS}")
        self._quorum_version = 0
        self.log_end_offset = 0
        self.leader_epoch = 0
        self.metadata_version = METADATA_VERSION  #: finalized level; set by who applies FeatureLevelRecord

    def replay(self) -> Iterator[Any]:
        """All records from the beginning; opens the log for appending. ConfigurationError when it cannot be trusted."""
        self._files.make_directory(self._folder)
        state = read_quorum_state(self._files, f"{self._folder}/{QUORUM_STATE}")
        self.leader_epoch = state.get("leader_epoch", 0)
        self._quorum_version = state.get("data_version", 0)
        parsed = (parse_file_name(name) for name in self._files.names(self._folder))
        segments = sorted(found[0] for found in parsed if found is not None and found[1] == LOG)
        if segments and segments[0] != 0:
            raise ConfigurationError(
                f"{self._folder} begins at offset {segments[0]}: Apache Kafka moved what is before into a snapshot, which is not read yet"
            )
        pending: list[Any] | None = None
        for base_offset in segments or [0]:
            for record in self._records_of(base_offset, is_last=base_offset == (segments or [0])[-1]):
                if isinstance(record, BeginTransactionRecord):
                    pending = []
                elif isinstance(record, EndTransactionRecord):
                    yield from pending or ()
                    pending = None
                elif isinstance(record, AbortTransactionRecord):
                    pending = None
                elif pending is not None:
                    pending.append(record)
                elif not isinstance(record, NoOpRecord):
                    yield record
        topic_id_path = f"{self._folder}/{PARTITION_METADATA}"
        if not (segments and self._files.exists(topic_id_path)):
            write_topic_id(self._files, topic_id_path, METADATA_TOPIC_ID)
            self._files.sync_directory(self._folder)
            self._files.sync_directory(self._folder.rpartition("/")[0] or "/")
        self._load_epochs()

    def append(self, records: Sequence[Any]) -> int:
        """Write records as one batch and return when they are on the disk; the offset of the last one.

        KafkaStorageError: nothing was appended.
        """
        if self._failure is not None:
            raise KafkaStorageError(f"the metadata log is offline: {self._failure}")
        now_ms = self._clock.now_ms()
        data = bytearray()
        end_offset = self.log_end_offset
        epoch = self.leader_epoch
        if not self._leads:
            epoch += 1
            data += build_batch([leader_change(self._node_id, now_ms)], is_control=True)
            assign_offsets(memoryview(data), end_offset, epoch)
            end_offset += 1
        frames = [Record(0, now_ms, None, encode_frame(record, self.metadata_version), ()) for record in records]
        batch = build_batch(frames, base_offset=end_offset, partition_leader_epoch=epoch)
        end_offset += len(frames)
        data += batch
        try:
            if not self._leads:
                self._begin_epoch(epoch)
            self._write(data)
        except OSError as error:
            raise KafkaStorageError(f"the metadata log cannot be written: {error}") from error
        start_offset, self.log_end_offset = self.log_end_offset, end_offset
        if not self._leads:
            self.leader_epoch, self._leads = epoch, True
            self._note_epoch(epoch, start_offset)
        return end_offset - 1

    def close(self) -> None:
        """Close the file; everything in it is on the disk already."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._files.close(descriptor)

    def _begin_epoch(self, epoch: int) -> None:
        path = f"{self._folder}/{QUORUM_STATE}"
        write_quorum_state(self._files, path, node_id=self._node_id, leader_epoch=epoch, data_version=self._quorum_version)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        """The batch is on the disk, so nothing may fail any more: the file is derived from it, and Kafka makes it anew too."""
        try:
            self._epochs.assign(epoch, start_offset)
        except OSError as error:
            _LOG.warning("%s", error)

    def _load_epochs(self) -> None:
        try:
            self._epochs.load()
        except Exception as error:  # noqa: BLE001  derived from the log: whatever is wrong with it, it is written anew
            _LOG.warning("%s", error)
        self._epochs.truncate_from_end(self.log_end_offset)

    def _write(self, data: bytearray) -> None:
        try:
            write_all(self._files, self._descriptor, data)
            self._files.sync(self._descriptor)
        except OSError as error:
            try:
                self._files.truncate(self._descriptor, self._size)
                self._files.sync(self._descriptor)
            except OSError:
                self._failure = error
            raise
        self._size += len(data)

    def _records_of(self, base_offset: int, *, is_last: bool) -> Iterator[Any]:
        path = f"{self._folder}/{file_name(base_offset, LOG)}"
        descriptor = self._files.open(path, APPEND)
        try:
            data = memoryview(read_all(self._files, path))
            end = 0
            for batch in self._whole_batches(data, path, is_last=is_last):
                end += batch.size
                self.log_end_offset = batch.next_offset
                self.leader_epoch = max(self.leader_epoch, batch.partition_leader_epoch)
                if not batch.is_control:
                    yield from self._decode(batch, path)
            if is_last:
                if end < len(data):
                    _LOG.warning("%s: the last %d bytes are torn and are cut at position %d", path, len(data) - end, end)
                    self._files.truncate(descriptor, end)
                    self._files.sync(descriptor)
                self._size, self._descriptor, descriptor = end, descriptor, -1
        finally:
            if descriptor >= 0:
                self._files.close(descriptor)

    def _whole_batches(self, data: memoryview, path: str, *, is_last: bool) -> Iterator[RecordBatch]:
        position = 0
        while position < len(data):
            problem = None
            try:
                batch = RecordBatch(data, position)
                size = batch.size
                problem = None if batch.check_crc() and batch.base_offset == self.log_end_offset else "a wrong CRC or offset"
            except KafkaError as error:
                problem, size = str(error), len(data) - position
            if problem is None:
                yield batch
                position += size
                continue
            if not is_last or (position + size < len(data) and any(data[position + size :])):
                raise ConfigurationError(
                    f"{path}: damaged at position {position} ({problem}), with data behind it: restore the file from a copy; "
                    "nothing is cut, because topics would be forgotten"
                )
            return

    def _decode(self, batch: RecordBatch, path: str) -> Iterator[Any]:
        try:
            for record in decode_records(batch, max_bytes=BATCH_BYTES_MAX):
                yield decode_frame(bytes(record.value or b""))
        except (WireError, CorruptMessage, KafkaError) as error:
            raise ConfigurationError(f"{path}: offset {batch.base_offset}: {error}") from error
