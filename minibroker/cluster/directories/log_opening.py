"""Opens the log of each partition at start, and of new partitions; finds a home for those that have none.

What a folder in a log directory can be, and what comes of it:

    named like a partition of the metadata log, with its topic id     opened
    the same, with the id of a deleted topic                          removed: the broker died between the record and the removal
    the same, with an id that the metadata log never had              the partition is offline: somebody else's data is not touched
    the same, and the log begins in a snapshot                        renamed to ...-stray, as Apache Kafka does: the id may be of a topic
                                                                      that was deleted before the snapshot, which nobody remembers
    named like no partition, with the id of a deleted topic           removed
    named like no partition otherwise                                 left alone, with a warning
    ...-delete                                                        removed in the background
    ...-future, where the metadata log says that the partition is     takes the place of the partition's folder: the broker died in a move
    ...-future elsewhere                                              removed, and the move begins again (replica_moves.py)

Of two folders of one partition, the one in the directory that the metadata log names is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from minibroker.background import Background
from minibroker.clock import Clock
from minibroker.cluster.directories.log_directory import DISK_ERRORS, LogDirectory
from minibroker.cluster.partition import Partition
from minibroker.errors import CorruptLogError, KafkaError, KafkaStorageError
from minibroker.log.log_config import LogConfig
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import (
    DELETE_FOLDER,
    STRAY_FOLDER,
    copied_folder_name,
    folder_name_on_its_way,
    parse_file_name,
    parse_folder_name,
)
from minibroker.storage.partition_metadata import NAME as PARTITION_METADATA
from minibroker.storage.partition_metadata import read_topic_id, write_topic_id

_LOG = logging.getLogger(__name__)

PREFERRED_MAX = 1_000  #: partitions that do not exist yet of which it is known where they are to be created
LAST_RESERVED_DIRECTORY_ID = 2  #: Kafka's DirectoryId: 0 to 2 mean unassigned, lost and migrating


class LogOpener:
    """Knows what lies where. `scan` first, once; then `open` for each partition."""

    def __init__(self, files: Files, clock: Clock, background: Background, directories: Sequence[LogDirectory]) -> None:
        self._files = files
        self._clock = clock
        self._background = background
        self._directories = directories
        self._homes: dict[str, LogDirectory] = {}  #: folder name -> where it was found at start
        self._begun: dict[str, UUID] = {}  #: path -> topic id: folders made for new partitions whose logs are not open yet
        self.forgets_removed = False  #: ids of deleted topics are not all known
        self.interrupted_moves: list[tuple[Partition, LogDirectory]] = []  #: moves that a stop or a crash interrupted
        self._preferred: dict[tuple[str, int], LogDirectory] = {}  #: of partitions that do not exist yet
        self._placed: dict[str, int] = {directory.path: 0 for directory in directories}  #: partitions of each

    def scan(self, removed_topic_ids: set[UUID], known_folders: Mapping[str, Partition]) -> None:
        """Look through the directories; finish moves, and remove what deleted topics left."""
        for directory in self._directories:
            if directory.offline_cause is not None:
                continue
            leftovers = self._settle_copies(directory, known_folders)
            for name in directory.folders():
                if name.endswith(DELETE_FOLDER) and name not in leftovers:
                    leftovers.append(name)
                elif name in known_folders and not self._is_left_behind(directory, name, removed_topic_ids):
                    self._note_home(name, directory, known_folders[name])
                elif self._is_partition(name):
                    leftovers += self._stray(directory, name, removed_topic_ids)
            if leftovers:
                self._background.submit(partial(directory.remove_leftovers, leftovers), _warn_of_error)

    def _is_left_behind(self, directory: LogDirectory, name: str, removed_topic_ids: set[UUID]) -> bool:
        """Whether it is of a deleted topic of that name, whose successor lives elsewhere. In a single directory `open` finds out."""
        if len(self._directories) == 1:
            return False
        try:
            return read_topic_id(self._files, f"{directory.path}/{name}/{PARTITION_METADATA}") in removed_topic_ids
        except (CorruptLogError, OSError):
            return False

    def _note_home(self, name: str, directory: LogDirectory, partition: Partition) -> None:
        """Where a partition was found; of two directories the one that the metadata log names is its home."""
        home = self._homes.setdefault(name, directory)
        if home is directory:
            return
        if directory.directory_id == partition.directory_id:
            self._homes[name], directory = directory, home
        _LOG.warning("%s is in %s too: the one there is not used", name, directory.path)

    def _settle_copies(self, directory: LogDirectory, known_folders: Mapping[str, Partition]) -> list[str]:
        """Let a copy take its place where the metadata log says that its partition is; names of others, which are to be removed."""
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
                    _LOG.warning("%s takes the place of the partition: the broker died while it moved here", path)
                    self._put_away_source(name, directory)
                    self._files.rename(path, home)
                    continue
            elif partition is not None and is_its_own:
                self.interrupted_moves.append((partition, directory))
            leftovers.append(folder_name_on_its_way(name, uuid4().hex, DELETE_FOLDER))
            self._files.rename(path, f"{directory.path}/{leftovers[-1]}")
        return leftovers

    def _put_away_source(self, name: str, destination: LogDirectory) -> None:
        """What a partition that has moved left in another directory."""
        for directory in self._directories:
            if directory is not destination and directory.offline_cause is None and self._files.exists(f"{directory.path}/{name}"):
                self._put_away(f"{directory.path}/{name}", DELETE_FOLDER)

    def _topic_id_of(self, path: str) -> UUID | None:
        try:
            return read_topic_id(self._files, f"{path}/{PARTITION_METADATA}")
        except (CorruptLogError, OSError):
            return None

    def prefer(self, key: tuple[str, int], directory: LogDirectory) -> None:
        """Where a partition is to be created that does not exist yet; the oldest of PREFERRED_MAX wishes is forgotten."""
        self._preferred.pop(key, None)
        self._preferred[key] = directory
        if len(self._preferred) > PREFERRED_MAX:
            del self._preferred[next(iter(self._preferred))]

    def online(self) -> list[LogDirectory]:
        """The directories that new partitions may get; KafkaStorageError when every directory is offline."""
        online = [directory for directory in self._directories if directory.offline_cause is None]
        if not online:
            raise KafkaStorageError("every log directory is offline")
        return online

    def choose_directories(self, topic: str, indexes: range) -> list[UUID]:
        """The directory.id for each of these new partitions: the preferred one, else the one with the fewest.

        KafkaStorageError when every directory is offline.
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
        """Give a partition its log, or the reason why it has none; whether a later try may do better."""
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
                _LOG.warning("%s is gone, its log ended at offset %d or later: partition %s starts again, empty", path, expected, name)
            is_new = home is None and self._begun.get(path) != partition.topic_id
            if not self._own(path, partition.topic_id, removed_topic_ids, is_new=is_new):
                directory.forget(key)
                self._begun[path] = partition.topic_id
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
            if str(cause) != str(partition.offline_cause):  # each try has its error
                _LOG.error("%s", cause)
            partition.take_offline(cause)
            return _may_pass(error)
        self._begun.pop(path, None)
        self._preferred.pop(key, None)
        partition.online_log = log
        log.on_shown = partition.wake
        partition.directory_id = directory.directory_id
        directory.add(key, log)
        return False

    def _place(self, partition: Partition) -> LogDirectory | str:
        """The directory that the metadata log names; in words where the partition must be neither looked for nor begun anew."""
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
        """A partition of the metadata log is at home in its directory."""
        for directory in self._directories:
            if directory.directory_id == partition.directory_id:
                self._placed[directory.path] += 1

    def _own(self, path: str, topic_id: UUID, removed_topic_ids: set[UUID], *, is_new: bool) -> bool:
        """Whether the folder is there and the topic's; what a deleted topic of that name left is put away.

        A folder without an id that was there at start is the topic's: it lost its id in a power loss. A new topic has none.
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
                _LOG.warning("%s is missing or damaged: it is written anew", metadata)
            write_topic_id(self._files, metadata, topic_id)
            return True
        if found == topic_id:
            return True
        if found not in removed_topic_ids and not self.forgets_removed:
            raise CorruptLogError(f"{metadata} has topic id {found}, the metadata log {topic_id}")
        self._put_away(path, DELETE_FOLDER if found in removed_topic_ids else STRAY_FOLDER)
        return False

    def _put_away(self, path: str, suffix: str) -> None:
        parent, _, name = path.rpartition("/")
        renamed = folder_name_on_its_way(name, uuid4().hex, suffix)
        if suffix == STRAY_FOLDER:
            _LOG.warning("%s is of no topic that the metadata log knows: it is set aside as %s", path, renamed)
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
        _LOG.warning("%s/%s belongs to no topic of the metadata log: it is left alone", directory.path, name)
        return []

    @staticmethod
    def _is_partition(name: str) -> bool:
        try:
            topic, _ = parse_folder_name(name)
        except ValueError:
            return False
        return topic != "__cluster_metadata"


def _may_pass(error: Exception) -> bool:
    """Whether the system could not, for now; a failing disk is trusted no more, and damage stays."""
    cause = error if isinstance(error, OSError) else error.__cause__
    return isinstance(cause, OSError) and cause.errno not in DISK_ERRORS


def _warn_of_error(result: BaseException | None) -> None:
    if isinstance(result, BaseException):
        _LOG.warning("leftovers of deleted topics could not be removed: %s", result)
