"""Read a metadata log and its snapshots without changing them, for the start of a broker, `storage info` and `storage check`.

The newest whole snapshot is read first, then the records of the log after it. Segments that end before the snapshot are not opened, and
batches before its end are skipped: Apache Kafka writes an empty record twice a second, so its logs are long. Instead of a damaged snapshot
an older one or the log alone is used, with a warning, if that leaves no gap. Records after a BeginTransactionRecord count once its
EndTransactionRecord is read.

A torn tail of the last segment is reported and not truncated. Other damage raises ConfigurationError.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from minibroker.cluster.metadata.batches import BatchDamage, metadata_of, position_before, records_of, whole_batches
from minibroker.cluster.metadata.quorum import Quorum
from minibroker.cluster.metadata.snapshot import Snapshot, SnapshotId, parse_snapshot_name, read_snapshot
from minibroker.errors import ConfigurationError
from minibroker.records.batch import RecordBatch
from minibroker.schemas.internal.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from minibroker.storage.files import Files, read_all
from minibroker.storage.log_file_names import LOG, file_name, parse_file_name

_LOG = logging.getLogger(__name__)

FOLDER = "__cluster_metadata-0"
_NO_OP = b"\x01\x14\x00\x00"  #: frame version 1, record id 20, version 0, no tagged fields: NoOpRecord


class MetadataReader:
    """Reads one log. Iterate `records` once; the attributes are valid after that."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._pending: list[Any] | None = None  #: records since BeginTransactionRecord
        self._next_base: int | None = None  #: where the next segment must start
        self.snapshots: list[SnapshotId] = []  #: all existing ones, oldest first
        self.snapshot: SnapshotId | None = None  #: the one that was used
        self.segments: list[int] = []  #: base offsets
        self.log_end_offset = 0
        self.leader_epoch = 0  #: the highest in the log
        self.epochs: list[tuple[int, int]] = []  #: epochs that start in the batches that were read, with their first offsets
        self.last_timestamp = -1  #: of the last batch, epoch ms
        self.quorum = Quorum()
        self.last_segment_size = 0  #: bytes of its whole batches
        self.torn_bytes = 0  #: bytes after them
        self.size_after_snapshot = 0  #: bytes of batches after the newest snapshot

    @property
    def is_in_transaction(self) -> bool:
        """Whether the log ends inside a transaction, which the next leader must abort."""
        return self._pending is not None

    @property
    def ends_before_snapshot(self) -> bool:
        """Whether the log ends before the snapshot does: a power loss took its end, or a copy of the directory lacks it."""
        return self.snapshot is not None and self.log_end_offset < self.snapshot.end_offset

    def records(self) -> Iterator[Any]:
        """Yield all effective records in order; none if there is no log. Raise ConfigurationError if the log cannot be trusted."""
        try:
            names = self._files.names(self._folder)
        except FileNotFoundError:
            return
        files = (parse_file_name(name) for name in names)
        self.segments = sorted(file[0] for file in files if file is not None and file[1] == LOG)
        snapshots = (parse_snapshot_name(name) for name in names)
        self.snapshots = sorted(snapshot for snapshot in snapshots if snapshot is not None)
        start = self.segments[0] if self.segments else None
        snapshot = self._newest_snapshot(start)
        if snapshot is not None:
            self.quorum, self.last_timestamp = snapshot.quorum, snapshot.last_contained_log_timestamp
            yield from snapshot.records
        for index, base_offset in enumerate(self.segments):
            yield from self._segment(base_offset, self.segments[index + 1 : index + 2])
        if self.ends_before_snapshot and self.snapshot is not None:
            _LOG.warning("%s ends at offset %d, before its snapshot %s", self._folder, self.log_end_offset, self.snapshot.name)

    def _newest_snapshot(self, start: int | None) -> Snapshot | None:
        problem = ""
        for snapshot_id in reversed(self.snapshots):
            if start is not None and snapshot_id.end_offset < start:
                break
            path = f"{self._folder}/{snapshot_id.name}"
            try:
                found = read_snapshot(self._files, path)
            except (ConfigurationError, FileNotFoundError) as error:
                problem = f"; {error}"
                _LOG.warning("ignoring a snapshot: %s", error)
                continue
            self.snapshot = snapshot_id
            self.leader_epoch = snapshot_id.epoch
            return found
        if start:
            raise ConfigurationError(f"{self._folder} starts at offset {start}, and no snapshot contains what was before{problem}")
        if self.snapshots and start is None and self.snapshots[-1].end_offset > 0:
            raise ConfigurationError(f"{self._folder} has no log and no whole snapshot{problem}")
        return None

    def _segment(self, base_offset: int, following: list[int]) -> Iterator[Any]:
        known_end = self.snapshot.end_offset if self.snapshot is not None else 0
        if following and following[0] <= known_end:
            self.log_end_offset = self._next_base = following[0]
            return
        if self._next_base not in {None, base_offset}:
            raise ConfigurationError(f"{self._folder}: a segment ends at offset {self._next_base}, the next starts at {base_offset}")
        path = f"{self._folder}/{file_name(base_offset, LOG)}"
        data = memoryview(read_all(self._files, path))
        position = position_before(data, known_end)
        self.log_end_offset = base_offset
        for batch in whole_batches(data, position, None if position else base_offset):
            if isinstance(batch, BatchDamage):
                if following or batch.has_data_after:
                    raise ConfigurationError(
                        f"{path}: damaged at position {batch.position} ({batch.problem}), with data after it: restore the file from a "
                        "copy; nothing is cut, because topics would be forgotten"
                    )
                break
            position += batch.size
            yield from self._batch(batch, path, known_end)
        self._next_base = self.log_end_offset
        self.last_segment_size = position
        self.torn_bytes = len(data) - position

    def _batch(self, batch: RecordBatch, path: str, known_end: int) -> Iterator[Any]:
        self.log_end_offset = batch.next_offset
        if batch.partition_leader_epoch > self.leader_epoch:
            self.leader_epoch = batch.partition_leader_epoch
            self.epochs.append((self.leader_epoch, batch.base_offset))
        self.last_timestamp = batch.max_timestamp
        if batch.next_offset <= known_end:
            return
        self.size_after_snapshot += batch.size
        for record in records_of(batch, path):
            if record.offset < known_end:
                continue
            if batch.is_control:
                self.quorum = self.quorum.after(record)
            elif record.value != _NO_OP:
                yield from self._count(metadata_of(record, path))

    def _count(self, record: Any) -> Iterator[Any]:
        if isinstance(record, BeginTransactionRecord):
            self._pending = []
        elif isinstance(record, EndTransactionRecord):
            pending, self._pending = self._pending, None
            yield from pending or ()
        elif isinstance(record, AbortTransactionRecord):
            self._pending = None
        elif self._pending is not None:
            self._pending.append(record)
        else:
            yield record
