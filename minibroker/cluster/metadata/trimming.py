"""Take snapshots of the metadata log when they are due, and remove what they replace.

Limits under Kafka's names, with Kafka's defaults:

    metadata.log.max.record.bytes.between.snapshots   bytes after which a snapshot is due
    metadata.log.max.snapshot.interval.ms             time after the last snapshot at which the next is due (0: never), if anything changed
    metadata.max.retention.bytes, .ms                 when the oldest snapshot and the log before the next one are removed

A snapshot is taken before an operation is written, when the file changes of all operations in it
are done. What it does not contain, such as the ids of deleted topics, is not needed any more. Its
records are gathered on the owner's thread. The background encodes and writes them. As in Apache
Kafka, the newest snapshot stays, and the log from the one before it on
(KafkaMetadataLog.maybeClean).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from minibroker.background import Background, warn_of_error
from minibroker.clock import Clock
from minibroker.cluster.metadata.metadata_log import MetadataLog
from minibroker.cluster.metadata.snapshot import Snapshot, SnapshotId, snapshot_batches, write_snapshot
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import LOG, file_name, parse_file_name

_LOG = logging.getLogger(__name__)


class TrimmingLimits(NamedTuple):
    """The configs above, with Kafka's defaults."""

    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 86_400_000


class MetadataTrimmer:
    """Takes snapshots of one metadata log. A failure is only logged: the log stays longer."""

    def __init__(self, log: MetadataLog, limits: TrimmingLimits, files: Files, clock: Clock, background: Background) -> None:
        self._log = log
        self._limits = limits
        self._files = files
        self._clock = clock
        self._background = background
        self._last_ms = clock.now_ms()  #: time of the last snapshot, or of the start of this process
        self._is_writing = False
        self._failed_at = 0  #: `size_after_snapshot` when the last snapshot failed: the retry waits for as many bytes again

    @property
    def is_due(self) -> bool:
        """Whether enough bytes or time have passed since the last snapshot."""
        size = self._log.size_after_snapshot - self._failed_at
        if self._is_writing or size <= 0:
            return False
        interval_ms = self._limits.snapshot_interval_ms
        return size >= self._limits.snapshot_bytes or 0 < interval_ms <= self._clock.now_ms() - self._last_ms

    def take_snapshot(self, records: list[Any]) -> None:
        """Write `records`, the state at the end of the log, in the background. Then remove what it replaces."""
        log = self._log
        self._is_writing = True
        self._last_ms = self._clock.now_ms()
        snapshot_id = SnapshotId(log.log_end_offset, log.leader_epoch)
        batches = snapshot_batches(
            Snapshot(log.quorum, records, log.last_timestamp),
            epoch=snapshot_id.epoch,
            metadata_version=log.metadata_version,
            now_ms=self._last_ms,
        )
        work = partial(write_snapshot, self._files, f"{log.folder}/{snapshot_id.name}", batches)
        self._background.submit(work, partial(self._written, snapshot_id, log.size_after_snapshot))

    def _written(self, snapshot_id: SnapshotId, size_after: int, result: int | BaseException) -> None:
        self._is_writing = False
        log = self._log
        if isinstance(result, BaseException):
            _LOG.warning("could not write a snapshot of the metadata log: %s", result)
            self._failed_at = log.size_after_snapshot
            return
        log.snapshots.append(snapshot_id)
        log.size_after_snapshot -= size_after
        self._failed_at = 0
        log.roll_next = True
        self._background.submit(
            self._removal(), partial(warn_of_error, _LOG, "could not remove files that a snapshot of the metadata log replaces: %s")
        )

    def _removal(self) -> Callable[[], None]:
        """Decide what to remove, and return the function that removes it."""
        log = self._log
        start = log.segments[0]
        outdated = []
        while len(log.snapshots) > 1 and self._may_go(log.snapshots[0]):
            outdated.append(log.snapshots.pop(0).name)
            start = log.snapshots[0].end_offset
        while len(log.segments) > 1 and log.segments[1] <= start:
            log.segments.pop(0)
        return partial(_remove, self._files, log.folder, outdated, log.segments[0])

    def _may_go(self, snapshot: SnapshotId) -> bool:
        log = self._log
        names = [each.name for each in log.snapshots] + [file_name(base_offset, LOG) for base_offset in log.segments]
        try:
            if sum(self._files.size(f"{log.folder}/{name}") for name in names) > self._limits.retention_bytes > 0:
                return True
            age_ms = self._clock.now_ms() - self._files.modified_ms(f"{log.folder}/{snapshot.name}")
        except OSError as error:
            _LOG.warning("%s", error)
            return False
        return age_ms > self._limits.retention_ms > 0


def _remove(files: Files, folder: str, snapshots: list[str], start: int) -> None:
    """Remove snapshots, then the segments before `start`; oldest first, so that a crash leaves no gap."""
    for name in snapshots:
        files.remove(f"{folder}/{name}")
    for name in sorted(files.names(folder)):
        found = parse_file_name(name)
        if found is not None and found[0] < start:
            files.remove(f"{folder}/{name}")
