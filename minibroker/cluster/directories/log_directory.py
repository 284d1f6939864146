"""One of `log.dirs`: its lock, its owner, its checkpoints and its clean-shutdown marker.

.lock                              one process at a time
meta.properties                    cluster.id, node.id, directory.id
.kafka_cleanshutdown               exists only while no broker runs, after the last one stopped in order
recovery-point-offset-checkpoint   recovery of a log starts here after an unclean stop
log-start-offset-checkpoint        log start offsets (of DeleteRecords; after retention the first segment has it)
replication-offset-checkpoint      high watermarks; for Apache Kafka, and to report how much is missing when a log was removed
cleaner-offset-checkpoint          how far each log is compacted (`CleanerOffsets`)
topic-partition/                   logs
topic-partition.<id>-delete/       logs of deleted topics, and logs that moved to another directory: removed at start
topic-partition.<id>-future/       copies of logs that move here from another directory (replica_moves.py)

When a disk fails a call on one log, the broker does not trust it with the others. The directory goes offline with all its partitions until
the next start, as in Apache Kafka; the other directories continue. The same happens when the directory is removed (removal_watch.py). Other
errors, such as too few descriptors, fail only the call. When the last directory goes offline, `minibroker serve` exits as Kafka does, but a
broker under test answers KAFKA_STORAGE_ERROR and LEADER_NOT_AVAILABLE.
A directory that cannot be used at start is offline as well. If it holds the metadata log or is the only one, the broker does not start.
"""

from __future__ import annotations

import base64
import errno
import logging
import os
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from uuid import UUID, uuid4

from minibroker.clock import Clock
from minibroker.errors import ConfigurationError, CorruptLogError
from minibroker.log.deletion import remove_folder
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.checkpoint_file import CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET, OffsetCheckpoint
from minibroker.storage.directory_files import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    DirectoryLock,
    MetaProperties,
    check_owner,
    format_uuid,
    mark_clean_shutdown,
    parse_uuid,
    read_meta_properties,
    take_clean_shutdown,
    write_meta_properties,
)
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import DELETE_FOLDER

_LOG = logging.getLogger(__name__)

#: Errors of a failing, full or read-only disk.
DISK_ERRORS = frozenset(
    {errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN, errno.EBADMSG}
)

CHECKPOINTS = (RECOVERY_POINT, LOG_START_OFFSET, REPLICATION_OFFSET)

Offsets = dict[tuple[str, int], int]


class Checkpoint(NamedTuple):
    """New contents of the three checkpoint files. None keeps a file as it is."""

    number: int  #: grows with each checkpoint, so that an older one does not replace a newer
    recovery_points: Offsets | None
    log_start_offsets: Offsets | None
    high_watermarks: Offsets | None


class LogDirectory:
    """A locked directory: the constructor locks it, `claim` checks its owner, and `load` reads what recovery needs.

    If the file system does not let it be locked and read, `offline_cause` is set. If another process has it, ConfigurationError is raised.
    """

    def __init__(self, files: Files, path: str) -> None:
        self.files = files
        self.path = path
        self.cluster_id = ""
        self.directory_id = UUID(int=0)
        self.was_clean = False  #: whether its last broker stopped in order
        self.recovery_points: Offsets = {}  #: as read at start, of partitions that are not open
        self.log_start_offsets: Offsets = {}
        self.high_watermarks: Offsets = {}
        self.cleaner_offsets = CleanerOffsets(files, path)
        self.logs: dict[tuple[str, int], PartitionLog] = {}  #: open logs
        self._checkpointed: set[tuple[str, int]] = set()  #: partitions that may be in the files
        self.offline_cause: OSError | None = None  #: why it is not used before the next start
        self._must_correct = False  #: a file has an offset that is above the end of its log
        self._checkpoint_count = 0  #: number of checkpoints taken
        self._checkpoint_lock = Lock()
        self._written: dict[str, tuple[int, Offsets | None]] = {}  #: guarded by the lock: number and values of each file
        self._is_closing = False  #: no file is written any more
        self.meta: MetaProperties | None = None
        try:
            files.make_directory(path)
            self._lock = DirectoryLock(files, f"{path}/{LOCK}")
            self.meta = read_meta_properties(files, f"{path}/{META_PROPERTIES}")
        except OSError as error:
            self.release()
            self.take_offline(error)
        except BaseException:
            self.release()
            raise

    def attempt(self, work: Callable[[], None]) -> None:
        """Call `work` unless the directory is offline. An OSError takes it offline."""
        if self.offline_cause is None:
            try:
                work()
            except OSError as error:
                self.take_offline(error)

    def claim(self, cluster_id: str, node_id: int, clock: Clock) -> None:
        """Make this node the owner. Raise ConfigurationError if the directory belongs to another cluster or node."""
        path = f"{self.path}/{META_PROPERTIES}"
        found = self.meta
        if found is not None:
            check_owner(path, found, cluster_id=cluster_id, node_id=node_id)
        text = found.directory_id if found is not None else None
        try:
            self.directory_id = parse_uuid(text) if text else random_uuid()
        except ValueError:
            raise ConfigurationError(f"{path}: directory.id={text} is no id") from None
        self.cluster_id = cluster_id
        expected = MetaProperties(cluster_id, node_id, format_uuid(self.directory_id))
        if found != expected:
            write_meta_properties(self.files, path, expected, now_ms=clock.now_ms())

    def load(self) -> None:
        """Remove the clean-shutdown marker and read the checkpoints. Unreadable ones mean full recovery."""
        self.was_clean = take_clean_shutdown(self.files, f"{self.path}/{CLEAN_SHUTDOWN}")
        self.recovery_points = self._read(RECOVERY_POINT)
        self.log_start_offsets = self._read(LOG_START_OFFSET)
        self.high_watermarks = self._read(REPLICATION_OFFSET, is_trusted=False)
        self._checkpointed = {*self.recovery_points, *self.log_start_offsets}
        self.cleaner_offsets.load()

    def forget(self, key: tuple[str, int]) -> None:
        """Remove an earlier log of this topic and partition from the checkpoints, on disk as well, before a new one is created.

        Its offsets would hide the new log's records, or truncate them after a crash. May raise OSError.
        """
        self.recovery_points.pop(key, None)
        self.log_start_offsets.pop(key, None)
        self.high_watermarks.pop(key, None)
        self.cleaner_offsets.forget(key)
        if key in self._checkpointed:
            self.write_checkpoints(self.checkpoint())
            self._checkpointed = {*self.recovery_points, *self.log_start_offsets, *self.logs}

    def add(self, key: tuple[str, int], log: PartitionLog) -> None:
        """Add an opened log. From now on the checkpoints have its own offsets."""
        self.logs[key] = log
        self._must_correct |= log.flusher.recovery_point < self.recovery_points.pop(key, 0)
        self.log_start_offsets.pop(key, None)
        self.high_watermarks.pop(key, None)
        self.cleaner_offsets.check(key, log.log_end_offset)

    def expect(self, key: tuple[str, int], log: PartitionLog, source: LogDirectory) -> None:
        """Write the checkpoints that the next start needs for a log that will move here from `source`. May raise OSError."""
        self.forget(key)
        if log.log_start_offset > log.segments.nth(0).base_offset:
            self.log_start_offsets[key] = log.log_start_offset
            self.write_checkpoints(self.checkpoint((LOG_START_OFFSET,)))
            self._checkpointed.add(key)
        if source.cleaner_offsets.was_compacted(key):
            first_dirty = source.cleaner_offsets.first_dirty_offset(key, log.log_start_offset, log.log_end_offset)
            self.cleaner_offsets.advance(key, first_dirty)
            self.cleaner_offsets.write()

    def unexpect(self, key: tuple[str, int]) -> None:
        """Undo `expect`: the log does not move here."""
        if key not in self.logs:
            self.log_start_offsets.pop(key, None)
            self.cleaner_offsets.remove(key)

    def lose(self, key: tuple[str, int], log: PartitionLog) -> None:
        """Close a log whose files were removed, and keep its offsets in the checkpoints for the next start."""
        del self.logs[key]
        self.recovery_points[key] = log.flusher.recovery_point
        self.high_watermarks[key] = log.high_watermark
        if log.log_start_offset > 0:
            self.log_start_offsets[key] = log.log_start_offset
        with suppress(OSError):
            log.close(clean=False)
        try:
            self.write_checkpoints(self.checkpoint())
        except OSError as error:
            _LOG.warning("could not write checkpoints: %s", error)

    def expected_offset(self, key: tuple[str, int]) -> int:
        """Return the least end that a log had when the last broker stopped; 0 if the checkpoints do not have it."""
        return max(self.recovery_points.get(key, 0), self.high_watermarks.get(key, 0))

    def remove(self, key: tuple[str, int]) -> PartitionLog | None:
        """Remove a partition of a deleted topic, and return its log. The files may keep it until a new log gets its name."""
        for known in (self.recovery_points, self.log_start_offsets, self.high_watermarks):
            known.pop(key, None)
        self.cleaner_offsets.remove(key)
        return self.logs.pop(key, None)

    def sync_names(self) -> None:
        """Make renames of deleted logs durable, before a new topic gets one of their names.

        Without it a power loss could bring a folder back, and the new topic would serve the old records.
        """
        if self.offline_cause is None:
            try:
                self.files.sync_directory(self.path)
            except OSError as error:
                _LOG.warning("%s: folders of deleted partitions may reappear after a power loss: %s", self.path, error)

    def settle(self, known: Container[tuple[str, int]]) -> None:
        """Remove partitions that are not `known` from the checkpoints, after all known ones were opened or failed to.

        Also correct recovery points above the end of their log: it lost its end and is not synced that far. May raise OSError.
        """
        for offsets in (self.recovery_points, self.log_start_offsets, self.high_watermarks):
            for key in [key for key in offsets if key not in known]:
                del offsets[key]
        self.cleaner_offsets.settle(known)
        if self._must_correct:
            self._must_correct = False
            self.write_checkpoints(self.checkpoint())

    def _read(self, name: str, *, is_trusted: bool = True) -> Offsets:
        try:
            return OffsetCheckpoint(self.files, f"{self.path}/{name}").read()
        except CorruptLogError as error:
            _LOG.warning("%s; it will be rewritten", error)
            self.was_clean &= not is_trusted
            return {}

    def checkpoint(self, names: Container[str] = CHECKPOINTS) -> Checkpoint:
        """Return the checkpoint to write into the files of `names`. Partitions that could not be opened keep their offsets."""
        logs = self.logs.items()
        self._checkpoint_count += 1
        self._checkpointed.update(self.logs)
        points = None if RECOVERY_POINT not in names else self.recovery_points | {key: log.flusher.recovery_point for key, log in logs}
        starts = {key: log.log_start_offset for key, log in logs if log.log_start_offset > 0} if LOG_START_OFFSET in names else None
        return Checkpoint(
            self._checkpoint_count,
            points,
            None if starts is None else self.log_start_offsets | starts,
            None if REPLICATION_OFFSET not in names else self.high_watermarks | {key: log.high_watermark for key, log in logs},
        )

    def write_checkpoints(self, checkpoint: Checkpoint, *, is_last: bool = False) -> None:
        """Replace the files that have changed. May run in a worker thread, and raise OSError.

        A checkpoint that is older than the written one, or comes after the last one, is not written.
        """
        with self._checkpoint_lock:
            if self._is_closing:
                return
            self._is_closing = is_last
            for name, values in zip(CHECKPOINTS, checkpoint[1:], strict=True):
                number, known = self._written.get(name, (0, None))
                if values is not None and checkpoint.number > number:
                    self._written[name] = checkpoint.number, None  # unknown until it is written
                    if values != known:
                        OffsetCheckpoint(self.files, f"{self.path}/{name}").write(values)
                    self._written[name] = checkpoint.number, values

    def must_go_offline_after(self, log: PartitionLog, error: OSError) -> bool:
        """Whether an error of one log takes this directory offline."""
        if self.offline_cause is not None or log.failures.is_closed:
            return False
        return error.errno in DISK_ERRORS or log.failures.offline_cause is not None

    def take_offline(self, cause: OSError) -> None:
        """Close all logs as they are and write no more. The next start recovers them."""
        self.offline_cause = cause
        self.cleaner_offsets.close(wait=False)
        self._is_closing = True  # without the lock, which a worker that hangs on this disk may hold
        for log in self.logs.values():
            with suppress(OSError):
                log.close(clean=False)
        self.logs.clear()

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the marker, as the last write of a stopping broker.

        `broker_epoch` is that of this node's last registration. Apache Kafka compares it when it registers, and treats any other as an
        unclean stop: it then drops the eligible leader replicas (KIP-966) and elects the last known ones, which is an unclean election.
        """
        mark_clean_shutdown(self.files, f"{self.path}/{CLEAN_SHUTDOWN}", broker_epoch=broker_epoch)

    @property
    def absolute_path(self) -> str:
        """The path as DescribeLogDirs reports it."""
        return os.path.abspath(self.path)  # noqa: PTH100  paths are strings in the storage

    def volume_bytes(self) -> tuple[int, int]:
        """Return the size of the volume and its usable space. Raise OSError if the directory cannot be reached."""
        return self.files.volume(self.path)

    def folders(self) -> list[str]:
        """Return all names in the directory."""
        return self.files.names(self.path)

    def remove_leftovers(self, names: Iterable[str]) -> None:
        """Remove folders of deleted topics. May run in a worker thread."""
        for name in names:
            if name.endswith(DELETE_FOLDER):
                remove_folder(self.files, f"{self.path}/{name}")

    def release(self) -> None:
        """Release the lock. Harmless if it is not held."""
        self.cleaner_offsets.close(wait=self.offline_cause is None)
        lock = getattr(self, "_lock", None)
        if lock is not None:
            lock.release()


def random_uuid() -> UUID:
    """Return a random id whose text does not start with `-`, as Kafka's Uuid.randomUuid; never a reserved one."""
    while True:
        value = uuid4()
        if not base64.urlsafe_b64encode(value.bytes).startswith(b"-"):
            return value


def open_directories(
    files: Files, log_dirs: Sequence[str], *, metadata_dir: str | None = None, cluster_id: str | None, node_id: int, clock: Clock
) -> list[LogDirectory]:
    """Lock and claim directories. The first of `log_dirs` has the metadata log unless `metadata_dir` is set.

    Raises:
        ConfigurationError: They belong to different clusters, or one that is needed cannot be used. No lock is held.
    """
    metadata_dir = metadata_dir or log_dirs[0]
    directories: list[LogDirectory] = []
    try:
        directories.extend(LogDirectory(files, path) for path in dict.fromkeys((*log_dirs, metadata_dir)))
        _claim_all(directories, cluster_id, node_id, clock)
        _check_usable(directories, log_dirs, metadata_dir)
    except BaseException as error:
        for directory in directories:
            directory.release()
        if isinstance(error, OSError):
            raise ConfigurationError(f"log.dirs: {error}") from error
        raise
    return directories


def _claim_all(directories: list[LogDirectory], cluster_id: str | None, node_id: int, clock: Clock) -> None:
    known = {each.meta.cluster_id: each.path for each in directories if each.meta is not None and each.meta.cluster_id}
    if len(known) > 1:
        listed = ", ".join(f"{path} to {cluster}" for cluster, path in known.items())
        raise ConfigurationError(f"log.dirs: the directories belong to different clusters: {listed}")
    cluster_id = cluster_id or next(iter(known), None) or format_uuid(random_uuid())
    for directory in directories:
        directory.attempt(partial(directory.claim, cluster_id, node_id, clock))
    ids = [directory.directory_id for directory in directories if directory.offline_cause is None]
    if len({*ids}) < len(ids):
        raise ConfigurationError("log.dirs: two directories have the same directory.id in meta.properties: one is a copy of the other")
    for directory in directories:
        directory.attempt(directory.load)


def _check_usable(directories: list[LogDirectory], log_dirs: Sequence[str], metadata_dir: str) -> None:
    """Raise ConfigurationError if the directory of the metadata log or all of `log_dirs` are offline. Log other offline ones."""
    offline = {directory.path: directory.offline_cause for directory in directories if directory.offline_cause is not None}
    for path, cause in offline.items():
        if path == metadata_dir or all(each in offline for each in log_dirs):
            raise ConfigurationError(f"log.dirs: cannot use {Path(path).absolute()}: {cause.strerror}") from cause
        _LOG.error("%s is offline with its partitions until the next start: %s", path, cause)


Key = tuple[str, int]  #: topic and partition


class CleanerOffsets:
    """`cleaner-offset-checkpoint`: how far each log of a directory is compacted. Only `write` may run in a worker thread.

    The offset of a log is its first dirty one: the cleaner has compacted everything below it. An offset that is too low only costs work. So
    a log is entered with its start offset before its first compaction: recovery must expect missing offsets in it, even if its
    policy changes later. An entry of a deleted topic would keep records of a new topic of that name uncompacted forever. It is removed,
    from the disk as well, before the new log is created (`forget`).
    """

    def __init__(self, files: Files, directory: str) -> None:
        self._checkpoint = OffsetCheckpoint(files, f"{directory}/{CLEANER_OFFSET}")
        self._offsets: dict[Key, int] = {}
        self._is_unreadable = False
        self._on_disk: set[Key] = set()  #: logs that may be in the file
        self._lock = Lock()  #: one writer at a time, and none after `close`
        self._is_closed = False

    def load(self) -> None:
        """Read the file. If it is corrupt, log a warning and compact every log from its start."""
        try:
            self._offsets = self._checkpoint.read()
        except CorruptLogError as error:
            _LOG.warning("%s; every log is compacted from its start", error)
            self._is_unreadable = True
        self._on_disk = {*self._offsets}

    def was_compacted(self, key: Key) -> bool:
        """Whether a log was ever compacted, or may have been: offsets may be missing in it, even if its policy has changed."""
        return self._is_unreadable or key in self._offsets

    def first_dirty_offset(self, key: Key, log_start_offset: int, log_end_offset: int) -> int:
        """Where compaction continues: at the log start if there is no valid offset (LogCleanerManager.cleanableOffsets)."""
        offset = self._offsets.get(key, log_start_offset)
        return offset if log_start_offset <= offset <= log_end_offset else log_start_offset

    def check(self, key: Key, log_end_offset: int) -> None:
        """Reset the offset of an opened log if its end is below it: the log lost its end, and may grow beyond the offset again."""
        if self._offsets.get(key, 0) > log_end_offset:
            self._offsets[key] = 0

    def announce(self, key: Key, log_start_offset: int) -> bool:
        """Enter a log that will be compacted. Return whether the file has it: it must before records are removed (`was_compacted`)."""
        self._offsets.setdefault(key, log_start_offset)
        return key in self._on_disk

    def advance(self, key: Key, offset: int) -> None:
        """Record that a log is compacted up to `offset`. `write` writes the file."""
        self._offsets[key] = offset

    def forget(self, key: Key) -> None:
        """Remove the entry of an earlier log, from the file as well, because a new log gets its name. May raise OSError."""
        self._offsets.pop(key, None)
        if key in self._on_disk or self._lock.locked():  # a worker may be writing the earlier entry
            self.write()

    def remove(self, key: Key) -> None:
        """Remove a deleted log. The file may keep it until a new log gets its name."""
        self._offsets.pop(key, None)

    def settle(self, known: Container[Key]) -> None:
        """Remove all logs that are not `known`."""
        for key in [key for key in self._offsets if key not in known]:
            del self._offsets[key]

    def write(self) -> None:
        """Replace the file. May raise OSError."""
        with self._lock:
            if self._is_closed:
                return
            offsets = dict(self._offsets)
            self._checkpoint.write(offsets)
            self._on_disk = {*offsets}

    def close(self, *, wait: bool) -> None:
        """Write no more: the directory is released, or failed. In a failed one a write may hang, so do not wait for it."""
        self._is_closed = True
        if wait:
            with self._lock:
                pass
