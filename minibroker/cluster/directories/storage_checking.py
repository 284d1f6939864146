"""Verify log directories of minibroker or Apache Kafka without changing them: `minibroker storage check`.

    check = StorageCheck(files, paths); check.plan()
    for task in check.tasks: check.done(check_segment(files, task))     in any order, in any process
    findings = check.finish()

The metadata log in one of the directories decides which partitions must exist, and which topic a folder belongs to. If none of `paths` has
it, only the folders themselves are checked. A path may also be the folder of a partition; then only that partition is checked.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple
from uuid import UUID

from minibroker.cluster.directories.log_opening import LAST_RESERVED_DIRECTORY_ID
from minibroker.cluster.metadata.metadata_image import TOPIC_RESOURCE, MetadataImage
from minibroker.cluster.metadata.metadata_reader import FOLDER, MetadataReader
from minibroker.cluster.metadata.quorum import QUORUM_STATE, read_quorum_state
from minibroker.cluster.metadata.snapshot import BOOTSTRAP, parse_snapshot_name, read_snapshot
from minibroker.cluster.partition import Partition
from minibroker.errors import ConfigurationError, CorruptLogError, KafkaError, WireError
from minibroker.log import checking
from minibroker.log.checking import Expected
from minibroker.log.findings import ERROR, WARNING, Finding, Findings
from minibroker.log.segment_checking import RecordCheck, SegmentReport, SegmentTask
from minibroker.storage.checkpoint_file import CLEANER_OFFSET, LOG_START_OFFSET, RECOVERY_POINT, REPLICATION_OFFSET, OffsetCheckpoint
from minibroker.storage.directory_files import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    MetaProperties,
    format_uuid,
    is_locked,
    parse_uuid,
    read_meta_properties,
    read_topic_id,
)
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import DELETE_FOLDER, FUTURE_FOLDER, LOG, STRAY_FOLDER, file_name, parse_file_name, parse_folder_name

_CHECKPOINTS = (RECOVERY_POINT, LOG_START_OFFSET, REPLICATION_OFFSET, CLEANER_OFFSET)


RecordCheckOf = Callable[[str, int, int | None], RecordCheck | None]  #: by topic, partition, and the number of partitions if that is known


class _Directory(NamedTuple):
    """One log directory."""

    path: str
    meta: MetaProperties | None
    was_clean: bool
    offsets: dict[str, dict[tuple[str, int], int]]  #: of each checkpoint file
    only: frozenset[str] | None  #: names of the folders to check; None: all


class _Folder(NamedTuple):
    """The folder of one partition."""

    expected: Expected
    findings: Findings
    tasks: list[SegmentTask]


class StorageTotals(NamedTuple):
    """What was read so far."""

    directories: int
    partitions: int
    segments: int
    batches: int
    bytes: int


class StorageCheck:
    """One check. An OSError or a damaged file is a finding; none is raised."""

    def __init__(self, files: Files, paths: Iterable[str], *, deep: bool = False, record_check_of: RecordCheckOf | None = None) -> None:
        self._files = files
        self._record_check_of = record_check_of
        self._paths = [path.rstrip("/") or "/" for path in paths]
        self._deep = deep
        self._findings = Findings()
        self._directories: list[_Directory] = []
        self._folders: dict[str, _Folder] = {}
        self._reports: dict[str, list[SegmentReport]] = {}
        self._image: MetadataImage | None = None
        self.tasks: list[SegmentTask] = []

    def plan(self) -> None:
        """Check everything except the segments, and list those as `tasks`."""
        for path, only in self._selected().items():
            self._guard(path, partial(self._open, path, only))
        self._check_owners()
        self._read_metadata()
        for directory in self._directories:
            self._guard(directory.path, partial(self._plan_directory, directory))
        self._check_missing()

    def size_of(self, task: SegmentTask) -> int:
        """Return the bytes of a segment; 0 if they are unknown."""
        try:
            return self._files.size(f"{task.directory}/{file_name(task.base_offset, LOG)}")
        except OSError:
            return 0

    def done(self, directory: str, report: SegmentReport) -> None:
        """Take the report of one task."""
        self._reports.setdefault(directory, []).append(report)

    def finish(self) -> list[Finding]:
        """Return all findings, those of directories first, then partition by partition. All tasks must be done."""
        found: list[Finding] = []
        for path in sorted(self._folders):
            folder = self._folders[path]
            reports = sorted(self._reports.get(path, []))
            self._guard(path, partial(checking.join, self._files, folder.expected, reports, folder.findings))
            found += checking.all_findings(folder.findings, reports)
        return [*self._findings.all(), *found]

    @property
    def totals(self) -> StorageTotals:
        """Return the number of directories, partitions and segments, and how much was read so far."""
        reports = [report for reports in self._reports.values() for report in reports]
        return StorageTotals(
            len(self._directories),
            len(self._folders),
            len(self.tasks),
            sum(report.batch_count for report in reports),
            sum(report.size for report in reports),
        )

    def _guard(self, path: str, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            self._findings.add(ERROR, error.filename or path, f"cannot be read: {error.strerror or error}")

    # Directories

    def _selected(self) -> dict[str, frozenset[str] | None]:
        """Return the directories to check, with the names of single folders, or None for all."""
        found: dict[str, frozenset[str] | None] = {}
        for path in self._paths:
            parent, _, name = os.path.abspath(path).rpartition("/")  # noqa: PTH100  paths are strings in the storage
            if self._is_partition(path, name):
                only = found.get(parent, frozenset())
                found[parent] = None if only is None else only | {name}
            else:
                found[path] = None
        return found

    def _is_partition(self, path: str, name: str) -> bool:
        try:
            parse_folder_name(_plain_name(name))
            return any(parse_file_name(each) for each in self._files.names(path))
        except (ValueError, OSError):
            return False

    def _open(self, path: str, only: frozenset[str] | None) -> None:
        names = set(self._files.names(path))
        is_used = LOCK in names and is_locked(self._files, f"{path}/{LOCK}")
        if is_used:
            self._findings.add(WARNING, path, "a broker is using this directory: files that it changes during the check may look damaged")
        offsets = {name: self._read_checkpoint(f"{path}/{name}") if only is None or name in names else {} for name in _CHECKPOINTS}
        was_clean = CLEAN_SHUTDOWN in names and not is_used
        self._directories.append(_Directory(path, self._read_meta(path, only), was_clean, offsets, only))

    def _read_checkpoint(self, path: str) -> dict[tuple[str, int], int]:
        try:
            return OffsetCheckpoint(self._files, path).read()
        except CorruptLogError as error:
            self._findings.add(ERROR, path, str(error).removeprefix(f"{path}: "))
            return {}

    def _read_meta(self, path: str, only: frozenset[str] | None) -> MetaProperties | None:
        path = f"{path}/{META_PROPERTIES}"
        try:
            meta = read_meta_properties(self._files, path)
            if meta is not None and meta.directory_id:
                parse_uuid(meta.directory_id)
        except (ConfigurationError, ValueError) as error:
            self._findings.add(ERROR, path, str(error).removeprefix(f"{path}: "))
            return None
        if meta is None and only is None:
            self._findings.add(ERROR, path, "is missing: the owner of this directory is unknown. Is it a log directory of a broker?")
        return meta

    def _check_owners(self) -> None:
        """Check that all directories belong to one node of one cluster, and that none is a copy of another."""
        owned = [(directory.path, directory.meta) for directory in self._directories if directory.meta is not None]
        for path, meta in owned[1:]:
            first_path, first = owned[0]
            if meta.cluster_id != first.cluster_id:
                self._findings.add(
                    ERROR, f"{path}/{META_PROPERTIES}", f"is of cluster {meta.cluster_id}, {first_path} of {first.cluster_id}"
                )
            elif meta.node_id != first.node_id:
                self._findings.add(ERROR, f"{path}/{META_PROPERTIES}", f"is of node {meta.node_id}, {first_path} of node {first.node_id}")
            elif meta.directory_id and meta.directory_id == first.directory_id:
                self._findings.add(ERROR, f"{path}/{META_PROPERTIES}", f"has the directory.id of {first_path}: one is a copy of the other")

    # Metadata

    def _read_metadata(self) -> None:
        for directory in self._directories:
            folder = f"{directory.path}/{FOLDER}"
            if self._files.exists(folder):
                self._guard(folder, partial(self._read_metadata_log, directory, folder))
            bootstrap = f"{directory.path}/{BOOTSTRAP}"
            if directory.only is None and self._files.exists(bootstrap):
                self._read_snapshot(bootstrap)

    def _read_metadata_log(self, directory: _Directory, folder: str) -> None:
        node_id = directory.meta.node_id if directory.meta is not None else None
        image = MetadataImage(-1 if node_id is None else node_id)
        reader = MetadataReader(self._files, folder)
        try:
            for record in reader.records():
                image.apply(record)
            image.check_complete()
            self._image = image
        except (ConfigurationError, KafkaError, WireError) as error:
            self._findings.add(ERROR, folder, f"cannot be replayed: {error}")
        voters = reader.quorum.voter_ids
        try:
            state = read_quorum_state(self._files, f"{folder}/{QUORUM_STATE}")
            voters = voters or (state.voters if state is not None else frozenset())
        except ConfigurationError as error:
            self._findings.add(ERROR, f"{folder}/{QUORUM_STATE}", str(error).removeprefix(f"{folder}/{QUORUM_STATE}: "))
        if node_id is not None and voters and node_id not in voters:
            words = f"is of a quorum of node {', '.join(map(str, sorted(voters)))}, {META_PROPERTIES} says node {node_id}"
            self._findings.add(WARNING, folder, words)
        for name in sorted(self._files.names(folder)):
            if parse_snapshot_name(name) is not None:
                self._read_snapshot(f"{folder}/{name}")

    def _read_snapshot(self, path: str) -> None:
        try:
            read_snapshot(self._files, path)
        except (ConfigurationError, KafkaError, WireError) as error:
            self._findings.add(ERROR, path, str(error).removeprefix(f"{path}: "))

    # Partitions

    def _plan_directory(self, directory: _Directory) -> None:
        for name in sorted(self._files.names(directory.path) if directory.only is None else directory.only):
            path = f"{directory.path}/{name}"
            if name.endswith(DELETE_FOLDER):
                continue  # it will be deleted
            if name.endswith(STRAY_FOLDER):
                self._findings.add(WARNING, path, "was put aside by Apache Kafka: it belongs to no partition of this node")
                continue
            try:
                key = parse_folder_name(_plain_name(name))
            except ValueError:
                continue
            self._guard(path, partial(self._plan_folder, directory, path, key))

    def _plan_folder(self, directory: _Directory, path: str, key: tuple[str, int]) -> None:
        findings = Findings()
        is_metadata = path.endswith(f"/{FOLDER}")
        config = self._image.config_of(TOPIC_RESOURCE, key[0]) if self._image is not None else {}
        is_future = path.endswith(FUTURE_FOLDER)
        offsets = {name: None if is_future or is_metadata else directory.offsets[name].get(key) for name in _CHECKPOINTS}
        expected = Expected(
            path,
            was_clean=(directory.was_clean and not is_future)
            or (is_metadata and self._image is None),  # a log that cannot be replayed is not truncated
            is_compacted=not is_metadata
            and (self._image is None or offsets[CLEANER_OFFSET] is not None or "compact" in config.get("cleanup.policy", "")),
            needs_indexes=not is_metadata,
            recovery_point=offsets[RECOVERY_POINT],
            log_start_offset=offsets[LOG_START_OFFSET],
            high_watermark=offsets[REPLICATION_OFFSET],
            cleaner_offset=offsets[CLEANER_OFFSET],
            deep=self._deep,
            record_check=self._record_check(key),
        )
        tasks = checking.plan(self._files, expected, findings)
        self._folders[path] = _Folder(expected, findings, tasks)
        self.tasks += tasks
        self._check_topic_id(directory, path, key, findings)

    def _record_check(self, key: tuple[str, int]) -> RecordCheck | None:
        """Return the check of an internal topic's records; None for other topics."""
        if self._record_check_of is None:
            return None
        topic = self._image.topics.get(key[0]) if self._image is not None else None
        return self._record_check_of(*key, len(topic.partitions) if topic is not None else None)

    def _check_topic_id(self, directory: _Directory, path: str, key: tuple[str, int], findings: Findings) -> None:
        metadata = f"{path}/{PARTITION_METADATA}"
        try:
            topic_id = read_topic_id(self._files, metadata)
        except CorruptLogError as error:
            findings.add(ERROR, metadata, str(error).removeprefix(f"{metadata}: "))
            return
        if topic_id is None and self._folders[path].tasks:  # a metadata log that was only formatted has no segment
            findings.add(WARNING, metadata, "is missing or empty; the next start writes it again")
        image = self._image
        if image is None or path.endswith(f"/{FOLDER}"):
            return
        topic = image.topics.get(key[0])
        if topic_id in image.removed_topic_ids:
            findings.add(WARNING, path, "belongs to a topic that was deleted; the next start removes it")
        elif topic is None or key[1] >= len(topic.partitions):
            findings.add(WARNING, path, "belongs to no topic of the metadata log")
        elif topic_id not in {None, topic.topic_id}:
            findings.add(ERROR, metadata, f"has topic id {topic_id}, the metadata log has {topic.topic_id} for {topic.name}")
        elif directory.meta is not None and not path.endswith(FUTURE_FOLDER):
            self._check_place(path, topic.partitions[key[1]], directory.meta, findings)

    def _check_place(self, path: str, partition: Partition, meta: MetaProperties, findings: Findings) -> None:
        """Check that the metadata log has the partition in this directory, or in no particular one."""
        placed = partition.directory_id
        replicas = self._image.partition_record(partition).replicas if self._image is not None else []
        if (
            meta.directory_id
            and meta.node_id in replicas
            and placed.int > LAST_RESERVED_DIRECTORY_ID
            and placed != parse_uuid(meta.directory_id)
        ):
            words = f"is in the directory with directory.id {meta.directory_id}, the metadata log has it in {format_uuid(placed)}"
            findings.add(WARNING, path, words)

    def _check_missing(self) -> None:
        """Check that the partitions that the metadata log or a checkpoint has in one of the directories exist."""
        for directory in self._directories:
            if directory.was_clean and directory.only is None:
                self._check_checkpointed(directory)
        if self._image is None:
            return
        places: dict[UUID, _Directory] = {}
        for directory in self._directories:
            if directory.meta is not None and directory.meta.directory_id and directory.only is None:
                places[parse_uuid(directory.meta.directory_id)] = directory
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                found = places.get(partition.directory_id)
                if found is None or any(
                    f"{directory.path}/{topic.name}-{partition.index}" in self._folders for directory in self._directories
                ):
                    continue
                offset = found.offsets[RECOVERY_POINT].get((topic.name, partition.index))
                path = f"{found.path}/{topic.name}-{partition.index}"
                if offset:
                    # The checkpoint may still have a deleted topic of that name.
                    severity = WARNING if self._image.removed_topic_ids and not found.was_clean else ERROR
                    self._findings.add(severity, path, f"is missing, but everything up to offset {offset} was on disk")
                else:
                    self._findings.add(WARNING, path, "does not exist; the next start creates the partition, empty")

    def _check_checkpointed(self, directory: _Directory) -> None:
        for file, offsets in directory.offsets.items():
            for topic, index in offsets:
                if f"{directory.path}/{topic}-{index}" not in self._folders:
                    self._findings.add(
                        WARNING, f"{directory.path}/{file}", f"has {topic}-{index}, which does not exist", kind="unknown partitions"
                    )


def _plain_name(name: str) -> str:
    """Return `topic-partition`, also for a copy that moves into a directory."""
    if name.endswith(FUTURE_FOLDER):
        return name.rpartition(".")[0]
    return name
