"""`__cluster_metadata-0`: topics, partitions, configs and producer ids as KRaft records. The broker replays it at start.

    00000000000000000000.log                     record batches: control records at the start of each epoch, then metadata records
    00000000000000000124-0000000001.checkpoint   snapshots (snapshot.py)
    quorum-state                                 leader and epoch
    partition.metadata                           the reserved topic id 00000000-0000-0000-0000-000000000001
    leader-epoch-checkpoint                      where each epoch starts

Invariants:
- A record is applied to memory only after its batch was fsynced, so an administrator's answer survives a power loss. These operations are
  rare: one fsync per request, on the caller's thread. A process that writes nothing starts no epoch.
- One batch is one operation, written completely or not at all. A transaction that Kafka left open is aborted by the next epoch.
- A torn tail after the last whole batch is truncated at start. If whole batches follow a damaged one, the broker refuses to start, because
  it would lose topics.
- A new segment starts when one is full, and after each of our snapshots, so that the segments before it can be removed (trimming.py).

There are no indexes: the log is only read as a whole, at start, and Kafka builds its own. Indexes that Kafka left beside a segment to which
we append are removed, because they would be too short.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from minibroker.clock import Clock
from minibroker.cluster.metadata.frame import METADATA_VERSION, MetadataOperation, encode_frame
from minibroker.cluster.metadata.metadata_reader import FOLDER, MetadataReader
from minibroker.cluster.metadata.quorum import QUORUM_STATE, Quorum, leader_change, quorum_of, read_quorum_state, write_quorum_state
from minibroker.cluster.metadata.snapshot import PART_SUFFIX, SnapshotId
from minibroker.errors import ConfigurationError, KafkaStorageError
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas.internal.metadata_records import AbortTransactionRecord
from minibroker.storage.checkpoint_file import LEADER_EPOCHS, LeaderEpochCheckpoint
from minibroker.storage.directory_files import PARTITION_METADATA, write_topic_id
from minibroker.storage.files import APPEND, Files, write_all
from minibroker.storage.log_file_names import DELETED, LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, file_name, parse_file_name

__all__ = ("FOLDER", "METADATA_TOPIC_ID", "RECORDS_IN_BATCH_MAX", "MetadataLog")

_LOG = logging.getLogger(__name__)

METADATA_TOPIC_ID = UUID(int=1)
RECORDS_IN_BATCH_MAX = 10_000  #: as Kafka's controller: larger operations are rejected
SEGMENT_BYTES = 1 << 30  #: metadata.log.segment.bytes


class MetadataLog:
    """The metadata log of one node. Call `replay` once, then `append_all`."""

    def __init__(
        self, files: Files, folder: str, *, node_id: int, directory_id: UUID, clock: Clock, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        self._files = files
        self._node_id = node_id
        self._directory_id = directory_id
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._descriptor = -1
        self._size = 0  #: bytes of the last segment, all in whole batches
        self._leads = False  #: whether this process has started its epoch
        self._failure: OSError | None = None  #: a failed write or fsync that could not be undone; no append is possible any more
        self._epochs = LeaderEpochCheckpoint(files, f"{folder}/{LEADER_EPOCHS}")
        self._must_write_voters = False  #: the next epoch must write the voters
        self._must_abort = False  #: Kafka died during a transaction, which the next epoch must abort
        self.folder = folder
        self.quorum = Quorum()
        self.snapshots: list[SnapshotId] = []  #: existing ones, oldest first
        self.segments: list[int] = []  #: base offsets
        self.log_end_offset = 0
        self.leader_epoch = 0
        self.last_timestamp = -1  #: of the last batch, epoch ms
        self.size_after_snapshot = 0  #: bytes of batches after the newest snapshot
        self.roll_next = False  #: the next batch starts a segment
        self.begins_in_snapshot = False  #: earlier records are known only by their result: ids of deleted topics are unknown
        self.metadata_version = METADATA_VERSION  #: finalized level, set by MetadataStore

    def replay(self) -> Iterator[Any]:
        """Yield all records, then open the log for appending. Raise ConfigurationError if it cannot be trusted."""
        reader = MetadataReader(self._files, self.folder)
        yield from reader.records()
        self._check_quorum(reader)
        self._files.make_directory(self.folder)
        self._take_over(reader)
        self._open_last_segment(reader)
        topic_id_path = f"{self.folder}/{PARTITION_METADATA}"
        if not (reader.segments and self._files.exists(topic_id_path)):
            write_topic_id(self._files, topic_id_path, METADATA_TOPIC_ID)
            self._files.sync_directory(self.folder)
            self._files.sync_directory(self.folder.rpartition("/")[0] or "/")
        self._load_epochs(reader)

    def append_all(self, operations: Sequence[MetadataOperation]) -> int:
        """Write a batch for each operation, with one write and one fsync, and return the last offset.

        Raises:
            KafkaStorageError: Nothing was appended.
        """
        return self._append(operations, [])

    def record_voters(self) -> None:
        """Raise kraft.version to 1: write the only voter, this node, from the configuration into the log.

        Raises:
            KafkaStorageError: Nothing was written.
        """
        before = self.quorum, self._must_write_voters
        self.quorum, self._must_write_voters = quorum_of(self._node_id, self._directory_id), not self._leads
        try:
            self._append([], self.quorum.control_records(self._clock.now_ms()) if self._leads else [])
        except KafkaStorageError:
            self.quorum, self._must_write_voters = before
            raise

    def _append(self, operations: Sequence[MetadataOperation], controls: Sequence[Record]) -> int:
        """Write a batch of control records, if any, and one for each operation. The first append of a process starts its epoch."""
        if self._failure is not None:
            raise KafkaStorageError(f"the metadata log is offline: {self._failure}")
        now_ms = self._clock.now_ms()
        end_offset = self.log_end_offset
        epoch = self.leader_epoch
        data = bytearray()
        if not self._leads:
            epoch += 1
            first, end_offset = self._first_batches(end_offset, epoch, now_ms)
            data += first
        if controls:
            data += build_batch(controls, base_offset=end_offset, is_control=True, partition_leader_epoch=epoch)
            end_offset += len(controls)
        for operation in operations:
            data += operation.batch(end_offset, epoch=epoch, now_ms=now_ms, metadata_version=self.metadata_version)
            end_offset += len(operation.records)
        try:
            if not self._leads:
                self._begin_epoch(epoch)
                self._remove_indexes()
            if self._size and (self.roll_next or self._size + len(data) > self._segment_bytes):
                self._roll()
            self._write(data)
        except OSError as error:
            raise KafkaStorageError(f"the metadata log cannot be written: {error}") from error
        start_offset, self.log_end_offset = self.log_end_offset, end_offset
        self.last_timestamp = now_ms
        self.size_after_snapshot += len(data)
        if not self._leads:
            self.leader_epoch, self._leads = epoch, True
            self._must_write_voters = self._must_abort = False
            self._note_epoch(epoch, start_offset)
        return end_offset - 1

    def _roll(self) -> None:
        """Start a segment at the log's end. If that raises OSError, the last segment stays the active one."""
        path = f"{self.folder}/{file_name(self.log_end_offset, LOG)}"
        descriptor = self._files.open(path, APPEND)
        try:
            self._files.sync_directory(self.folder)
        except OSError as error:
            self._files.close(descriptor)
            self._failure = error  # until the empty segment is removed: if it stayed, and the log grew, the next start would fail
            self._files.remove(path)
            self._failure = None
            raise
        self._files.close(self._descriptor)
        self._descriptor, self._size = descriptor, 0
        self.segments.append(self.log_end_offset)
        self.roll_next = False

    def take_offline(self, cause: OSError) -> None:
        """Reject appends until the next start, because the files were removed."""
        self._failure = cause

    def close(self) -> None:
        """Close the file, which is always synced."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._files.close(descriptor)
            self._failure = self._failure or OSError(errno.EBADF, "it is closed")

    def _check_quorum(self, reader: MetadataReader) -> None:
        state = read_quorum_state(self._files, f"{self.folder}/{QUORUM_STATE}")
        self.leader_epoch = max(reader.leader_epoch, state.leader_epoch if state else 0)
        self.quorum = reader.quorum
        voters = reader.quorum.voter_ids or (state.voters if state else frozenset())
        if voters - {self._node_id}:
            raise ConfigurationError(
                f"{self.folder} belongs to a quorum of node{'s' * (len(voters) > 1)} {', '.join(map(str, sorted(voters)))}: "
                f"node {self._node_id} alone cannot continue it"
            )
        is_new = reader.log_end_offset == 0
        has_static_voters = state is not None and state.data_version == 0
        if not self.quorum.is_led_by(self._node_id, self._directory_id) or (is_new and not has_static_voters and not self.quorum.voters):
            if self.quorum.voters is not None:
                _LOG.warning("%s: the directory.id of its voter is not that of this directory (the next write corrects it)", self.folder)
            self.quorum = quorum_of(self._node_id, self._directory_id)
            self._must_write_voters = True
        self._must_write_voters |= is_new and self.quorum.voters is not None

    def _take_over(self, reader: MetadataReader) -> None:
        self.log_end_offset = reader.log_end_offset
        self.snapshots = reader.snapshots
        self.segments = reader.segments
        self.last_timestamp = reader.last_timestamp
        self.size_after_snapshot = reader.size_after_snapshot
        self.begins_in_snapshot = reader.snapshot is not None and reader.snapshot.end_offset > 0
        self._must_abort = reader.is_in_transaction
        self._size = reader.last_segment_size
        for name in self._files.names(self.folder):
            if name.endswith((PART_SUFFIX, DELETED)):  # unfinished snapshots, and files that Kafka was deleting when it stopped
                self._files.remove(f"{self.folder}/{name}")
        if reader.ends_before_snapshot and reader.snapshot is not None:
            self._start_after(reader.snapshot)

    def _start_after(self, snapshot: SnapshotId) -> None:
        """Restart the log at the end of a snapshot that ends after it, as in Apache Kafka (truncateToLatestSnapshot)."""
        for name in sorted(self._files.names(self.folder)):
            if parse_file_name(name) is not None:
                self._files.remove(f"{self.folder}/{name}")
        self.segments, self._size = [], 0
        self.log_end_offset = snapshot.end_offset

    def _open_last_segment(self, reader: MetadataReader) -> None:
        base_offset = self.segments[-1] if self.segments else self.log_end_offset
        path = f"{self.folder}/{file_name(base_offset, LOG)}"
        self._descriptor = self._files.open(path, APPEND)
        if not self.segments:
            self.segments = [base_offset]
            self._files.sync_directory(self.folder)
        elif reader.torn_bytes:
            _LOG.warning("%s: cut off the last %d bytes, an incomplete batch, at position %d", path, reader.torn_bytes, self._size)
            self._files.truncate(self._descriptor, self._size)
            self._files.sync(self._descriptor)

    def _first_batches(self, offset: int, epoch: int, now_ms: int) -> tuple[bytearray, int]:
        """Return the first batches of an epoch, and the offset after them."""
        controls = [leader_change(self._node_id, now_ms)]
        if self._must_write_voters:
            controls += self.quorum.control_records(now_ms)
        data = build_batch(controls, base_offset=offset, is_control=True, partition_leader_epoch=epoch)
        offset += len(controls)
        if self._must_abort:
            abort = encode_frame(AbortTransactionRecord(reason="the leader that began it stopped"), self.metadata_version)
            data += build_batch([Record(0, now_ms, None, abort, ())], base_offset=offset, partition_leader_epoch=epoch)
            offset += 1
        return data, offset

    def _begin_epoch(self, epoch: int) -> None:
        path = f"{self.folder}/{QUORUM_STATE}"
        version = int(self.quorum.kraft_version > 0)
        write_quorum_state(self._files, path, node_id=self._node_id, leader_epoch=epoch, data_version=version)

    def _remove_indexes(self) -> None:
        for suffix in (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX):
            path = f"{self.folder}/{file_name(self.segments[-1], suffix)}"
            if self._files.exists(path):
                self._files.remove(path)

    def _note_epoch(self, epoch: int, start_offset: int) -> None:
        """Write the epoch file. An error is only logged: the batch is on disk, and the file is rebuilt from it."""
        try:
            self._epochs.assign(epoch, start_offset)
        except OSError as error:
            _LOG.warning("%s", error)

    def _load_epochs(self, reader: MetadataReader) -> None:
        try:
            self._epochs.load()
        except Exception as error:  # noqa: BLE001  it is derived from the log and is rewritten
            _LOG.warning("%s", error)
        self._epochs.truncate_from_end(self.log_end_offset)
        for epoch, start_offset in reader.epochs:
            if epoch > self._epochs.latest:
                self._note_epoch(epoch, start_offset)

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
