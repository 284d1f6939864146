"""Snapshots of the metadata log: the state up to an offset, as records in the log's format.

    00000000000000000124-0000000001.checkpoint   end offset (exclusive), and epoch of the last record in it
    ....checkpoint.part                          being written, or left by a crash
    ....checkpoint.deleted                       being deleted (by Kafka)

    batch 1      control: SNAPSHOT_HEADER, and KRAFT_VERSION and KRAFT_VOTERS if the log has them
    batches      records, no more than fit in a few hundred kilobytes each
    last batch   control: SNAPSHOT_FOOTER; without it the snapshot is incomplete

Offsets in it count from 0, the epoch of its batches is the snapshot's. Also `bootstrap.checkpoint` beside the log, which
`kafka-storage format` leaves for the first start, is such a file. Sources: KIP-630, RecordsSnapshotWriter, Snapshots of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from minibroker.cluster.metadata.batches import BatchDamage, metadata_of, records_of, whole_batches
from minibroker.cluster.metadata.frame import encode_frame
from minibroker.cluster.metadata.quorum import Quorum, control_record
from minibroker.errors import ConfigurationError
from minibroker.records.builder import build_batch
from minibroker.records.control import ControlType, parse_control_key
from minibroker.records.record import Record
from minibroker.schemas.internal.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from minibroker.storage.files import REPLACE, Files, read_all, write_all
from minibroker.wire.compiled import decode_all

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
BOOTSTRAP = "bootstrap.checkpoint"
BATCH_BYTES = 256 * 1024  #: of records in one batch, about

_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """End offset and epoch. The larger of two snapshots is the newer one."""

    end_offset: int
    epoch: int

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SUFFIX}"


class Snapshot(NamedTuple):
    """The contents of a snapshot."""

    quorum: Quorum
    records: list[Any]
    last_contained_log_timestamp: int  #: epoch ms


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the id of a snapshot's file; None for other names."""
    match = _NAME.fullmatch(name)
    return SnapshotId(int(match[1]), int(match[2])) if match else None


def read_snapshot(files: Files, path: str) -> Snapshot:
    """Read a snapshot. Raise ConfigurationError if it is damaged or incomplete, FileNotFoundError if it does not exist."""
    quorum, records, timestamp = Quorum(), [], -1
    is_whole = False
    for batch in whole_batches(memoryview(read_all(files, path)), 0, None):
        if isinstance(batch, BatchDamage):
            raise ConfigurationError(f"{path}: damaged at position {batch.position} ({batch.problem})")
        if is_whole:
            raise ConfigurationError(f"{path}: a batch after the footer")
        for record in records_of(batch, path):
            if not batch.is_control:
                records.append(metadata_of(record, path))
                continue
            control_type = parse_control_key(record.key)
            is_whole = control_type is ControlType.SNAPSHOT_FOOTER
            if control_type is ControlType.SNAPSHOT_HEADER:
                header = decode_all(SnapshotHeaderRecord, record.value or b"", 0, 0, flexible=True)
                timestamp = header.last_contained_log_timestamp
            quorum = quorum.after(record)
    if not is_whole:
        raise ConfigurationError(f"{path}: cut off, there is no footer")
    return Snapshot(quorum, records, timestamp)


def snapshot_batches(snapshot: Snapshot, *, epoch: int, metadata_version: int, now_ms: int) -> Iterator[bytearray]:
    """Yield the bytes of a snapshot, batch by batch."""
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=snapshot.last_contained_log_timestamp)
    head = [control_record(ControlType.SNAPSHOT_HEADER, header, now_ms), *snapshot.quorum.control_records(now_ms)]
    yield build_batch(head, is_control=True, partition_leader_epoch=epoch)
    offset = len(head)
    for part in _parts(snapshot.records, metadata_version, now_ms):
        yield build_batch(part, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(part)
    footer = control_record(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0), now_ms)
    yield build_batch([footer], base_offset=offset, is_control=True, partition_leader_epoch=epoch)


def write_snapshot(files: Files, path: str, batches: Iterator[bytearray]) -> int:
    """Write a snapshot, synced, and rename it when it is complete. Return its size. May raise OSError."""
    part = path.removesuffix(SUFFIX) + PART_SUFFIX
    descriptor = files.handles.open_path(part, REPLACE)
    size = 0
    try:
        for batch in batches:
            write_all(files, descriptor, batch)
            size += len(batch)
        files.sync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(part, path)
    files.sync_directory(path.rpartition("/")[0])
    return size


def _parts(records: Sequence[Any], metadata_version: int, now_ms: int) -> Iterator[list[Record]]:
    part: list[Record] = []
    size = 0
    for record in records:
        value = encode_frame(record, metadata_version)
        part.append(Record(0, now_ms, None, value, ()))
        size += len(value)
        if size >= BATCH_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
