"""Open the logs of all partitions at start, and those of new partitions, and choose the directories of new ones.

What the start does with each folder in a log directory:

    named like a partition of the metadata log, with its topic id     opened
    the same, with the id of a deleted topic                          removed: the broker died between the record and the removal
    the same, with an id that the metadata log never had              the partition is offline, and the foreign data is not touched
    the same, and the log starts with a snapshot                      renamed to ...-stray, as Apache Kafka does: the id may be that of a
                                                                      topic that was deleted before the snapshot
    named like no partition, with the id of a deleted topic           removed
    named like no partition otherwise                                 not touched, with a warning
    ...-delete                                                        removed in the background
    ...-future, where the metadata log says that the partition is     replaces the partition's folder: the broker died during a move
    ...-future elsewhere                                              removed, and the move starts again (replica_moves.py)

Of two folders of one partition, the one in the directory that the metadata log names is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from minibroker.background import Background, warn_of_error
from minibroker.clock import Clock
from minibroker.cluster.directories.log_directory import DISK_ERRORS, LogDirectory
from minibroker.cluster.partition import Partition
from minibroker.errors import CorruptLogError, KafkaError, KafkaStorageError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.directory_files import PARTITION_METADATA, read_topic_id, write_topic_id
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import (
    DELETE_FOLDER,
    STRAY_FOLDER,
    copied_folder_name,
    folder_name_on_its_way,
    parse_file_name,
    parse_folder_name,
)

_LOG = logging.getLogger(__name__)

PREFERRED_MAX = 1_000  #: partitions that do not exist yet and have a preferred directory
LAST_RESERVED_DIRECTORY_ID = 2  #: Kafka's DirectoryId: 0 to 2 mean unassigned, lost and migrating


class LogOpener:
    """Finds and opens logs. Call `scan` once, then `open` for each partition."""

    def __init__(self, files: Files, clock: Clock, background: Background, directories: Sequence[LogDirectory]) -> None:
        self._files = files
        self._clock = clock
        self._background = background
        self._directories = directories
        self._homes: dict[str, LogDirectory] = {}  #: folder name -> the directory that had it at start
        self._created: dict[str, UUID] = {}  #: path -> topic id: folders created for new partitions whose logs are not open yet
        self.misses_removed_ids = False  #: the log starts with a snapshot, so some ids of deleted topics are unknown
        self.interrupted_moves: list[tuple[Partition, LogDirectory]] = []  #: moves that a stop or a crash interrupted
        self._preferred: dict[tuple[str, int], LogDirectory] = {}  #: of partitions that do not exist yet
        self._placed: dict[str, int] = {directory.path: 0 for directory in directories}  #: number of partitions of each

    def scan(self, removed_topic_ids: set[UUID], known_folders: Mapping[str, Partition]) -> None:
        """Scan the directories, finish interrupted moves, and remove folders of deleted topics."""
        for directory in self._directories:
            if directory.offline_cause is not None:
                continue
            leftovers = self._settle_copies(directory, known_folders)
            for name in directory.folders():
                if name.endswith(DELETE_FOLDER) and name not in leftovers:
                    leftovers.append(name)
                elif name in known_folders and not self._is_leftover(directory, name, removed_topic_ids):
                    self._note_home(name, directory, known_folders[name])
                elif self._is_partition(name):
                    leftovers += self._stray(directory, name, removed_topic_ids)
            if leftovers:
                self._background.submit(
                    partial(directory.remove_leftovers, leftovers),
                    partial(warn_of_error, _LOG, "leftovers of deleted topics could not be removed: %s"),
                )

    def _is_leftover(self, directory: LogDirectory, name: str, removed_topic_ids: set[UUID]) -> bool:
        """Whether a folder is that of a deleted topic, whose successor may be elsewhere. For a single directory `open` decides."""
        if len(self._directories) == 1:
            return False
        try:
            return read_topic_id(self._files, f"{directory.path}/{name}/{PARTITION_METADATA}") in removed_topic_ids
        except (CorruptLogError, OSError):
            return False

    def _note_home(self, name: str, directory: LogDirectory, partition: Partition) -> None:
        """Record where a partition was found. Of two directories, the one that the metadata log names counts."""
        home = self._homes.setdefault(name, directory)
        if home is directory:
            return
        if directory.directory_id == partition.directory_id:
            self._homes[name], directory = directory, home
        _LOG.warning("%s is also in %s, where the broker does not use it", name, directory.path)

    def _settle_copies(self, directory: LogDirectory, known_folders: Mapping[str, Partition]) -> list[str]:
        """Rename copies whose partition the metadata log has in this directory. Return the names of other copies, to be removed."""
        leftovers = []
        for folder in directory.folders():
            name = copied_folder_name(folder)
            if name is None:
                continue
            path = f"{directory.path}/{folder}"
            partition = known_folders.get(name)
            is_its_own = partition is not None and self._topic_id_of(path) == partition.topic_id
            if partition is not None and is_its_own and partition.directory_id == directory.directory_id:
                home = f"{directory.path}/{name}"
                if not self._files.exists(home):
                    _LOG.warning("%s is now the folder of the partition: the broker stopped while it moved the partition", path)
                    self._put_away_source(name, directory)
                    self._files.rename(path, home)
                    continue
            elif partition is not None and is_its_own:
                self.interrupted_moves.append((partition, directory))
            leftovers.append(folder_name_on_its_way(name, uuid4().hex, DELETE_FOLDER))
            self._files.rename(path, f"{directory.path}/{leftovers[-1]}")
        return leftovers

    def _put_away_source(self, name: str, destination: LogDirectory) -> None:
        """Rename the old folder of a partition that has moved."""
        for directory in self._directories:
            if directory is not destination and directory.offline_cause is None and self._files.exists(f"{directory.path}/{name}"):
                self._put_away(f"{directory.path}/{name}", DELETE_FOLDER)

    def _topic_id_of(self, path: str) -> UUID | None:
        try:
            return read_topic_id(self._files, f"{path}/{PARTITION_METADATA}")
        except (CorruptLogError, OSError):
            return None

    def prefer(self, key: tuple[str, int], directory: LogDirectory) -> None:
        """Record where a partition that does not exist yet will be created. At most PREFERRED_MAX are kept, the newest."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def online(self) -> list[LogDirectory]:
        """Return the online directories. Raise KafkaStorageError if there is none."""
        online = [directory for directory in self._directories if directory.offline_cause is None]
        if not online:
            raise KafkaStorageError("every log directory is offline")
        return online

    def choose_directories(self, topic: str, indexes: range) -> list[UUID]:
        """Return the directory.id for each new partition: its preferred directory, else the one with the fewest partitions.

        Raises:
            KafkaStorageError: Every directory is offline.
        """
        online, placed = self.online(), self._placed
        chosen = []
        for index in indexes:
            directory = self._preferred.get((topic, index)) if self._preferred else None
            if directory is None or directory not in online:
                directory = online[0] if len(online) == 1 else min(online, key=lambda each: placed[each.path])
            placed[directory.path] += 1
            chosen.append(directory.directory_id)
        return chosen

    def open(self, partition: Partition, config: LogConfig, *, removed_topic_ids: set[UUID], producer_id_expiration_ms: int) -> bool:
        """Open the log of a partition, or take the partition offline. Return whether a retry may succeed."""
        name = f"{partition.topic}-{partition.index}"
        home = self._homes.pop(name, None)
        directory = home or self._place(partition)
        if isinstance(directory, str):
            partition.take_offline(KafkaStorageError(f"{name} is in {directory}"))
            return False
        path = f"{directory.path}/{name}"
        try:
            key = partition.topic, partition.index
            if (expected := directory.expected_offset(key)) and not self._files.exists(path):
                _LOG.warning("%s is missing, and its log ended at offset %d or later: partition %s is now empty", path, expected, name)
            is_new = home is None and self._created.get(path) != partition.topic_id
            if not self._own(path, partition.topic_id, removed_topic_ids, is_new=is_new):
                directory.forget(key)
                self._created[path] = partition.topic_id
                self._files.make_directory(path)
                write_topic_id(self._files, f"{path}/{PARTITION_METADATA}", partition.topic_id)
            log = PartitionLog.open(
                Path(path),
                config=config,
                files=self._files,
                clock=self._clock,
                background=self._background,
                clean_shutdown=directory.was_clean,
                recovery_point=directory.recovery_points.get(key, 0),
                log_start_offset=directory.log_start_offsets.get(key, 0),
                was_compacted=directory.cleaner_offsets.was_compacted(key),
                producer_id_expiration_ms=producer_id_expiration_ms,
            )
            log.assign_leader_epoch(partition.leader_epoch)
        except (CorruptLogError, OSError, KafkaError) as error:
            cause = KafkaStorageError(f"{name} is offline: {error}")
            if str(cause) != str(partition.offline_cause):  # log an error once, not at each retry
                _LOG.error("%s", cause)
            partition.take_offline(cause)
            return _may_pass(error)
        self._created.pop(path, None)
        self._preferred.pop(key, None)
        partition.online_log = log
        log.on_shown = partition.wake
        partition.directory_id = directory.directory_id
        directory.add(key, log)
        return False

    def _place(self, partition: Partition) -> LogDirectory | str:
        """Return the directory that the metadata log names, or the reason why the partition must stay offline."""
        offline = [directory.path for directory in self._directories if directory.offline_cause is not None]
        for directory in self._directories:
            if directory.offline_cause is None and directory.directory_id == partition.directory_id:
                return directory
        if offline:
            return f"a log directory that is offline, {' or '.join(offline)}"
        if partition.directory_id.int > LAST_RESERVED_DIRECTORY_ID:
            return "a log directory that is not among log.dirs"
        return self._directories[0]

    def count_placed(self, partition: Partition) -> None:
        """Count a partition of the metadata log for its directory."""
        for directory in self._directories:
            if directory.directory_id == partition.directory_id:
                self._placed[directory.path] += 1

    def _own(self, path: str, topic_id: UUID, removed_topic_ids: set[UUID], *, is_new: bool) -> bool:
        """Whether the folder exists and belongs to the topic. Rename it if it is that of a deleted topic.

        A folder without an id that existed at start belongs to the topic: it lost its id in a power loss.
        """
        if is_new and not self._files.exists(path):
            return False
        metadata = f"{path}/{PARTITION_METADATA}"
        found = read_topic_id(self._files, metadata)
        if found is None:
            if not self._files.exists(path):
                return False
            if is_new:
                self._put_away(path, STRAY_FOLDER)
                return False
            if any(parse_file_name(name) for name in self._files.names(path)):
                _LOG.warning("%s is missing or damaged: it is rewritten", metadata)
            write_topic_id(self._files, metadata, topic_id)
            return True
        if found == topic_id:
            return True
        if found not in removed_topic_ids and not self.misses_removed_ids:
            raise CorruptLogError(f"{metadata} has topic id {found}, the metadata log {topic_id}")
        self._put_away(path, DELETE_FOLDER if found in removed_topic_ids else STRAY_FOLDER)
        return False

    def _put_away(self, path: str, suffix: str) -> None:
        parent, _, name = path.rpartition("/")
        renamed = folder_name_on_its_way(name, uuid4().hex, suffix)
        if suffix == STRAY_FOLDER:
            _LOG.warning("%s belongs to no topic of the metadata log: renaming it to %s", path, renamed)
        self._files.rename(path, f"{parent}/{renamed}")

    def _stray(self, directory: LogDirectory, name: str, removed_topic_ids: set[UUID]) -> list[str]:
        try:
            topic_id = read_topic_id(self._files, f"{directory.path}/{name}/{PARTITION_METADATA}")
        except (CorruptLogError, OSError):
            topic_id = None
        if topic_id in removed_topic_ids:
            renamed = folder_name_on_its_way(name, uuid4().hex, DELETE_FOLDER)
            self._files.rename(f"{directory.path}/{name}", f"{directory.path}/{renamed}")
            return [renamed]
        _LOG.warning("%s/%s belongs to no topic of the metadata log: leaving it unchanged", directory.path, name)
        return []

    @staticmethod
    def _is_partition(name: str) -> bool:
        try:
            topic, _ = parse_folder_name(name)
        except ValueError:
            return False
        return topic != "__cluster_metadata"


def _may_pass(error: Exception) -> bool:
    """Whether an error may pass: not one of a failing disk, and not damage."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno not in DISK_ERRORS
