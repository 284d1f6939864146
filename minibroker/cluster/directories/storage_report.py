"""Report the contents of a node's log directories without changing them: `minibroker storage info`.

It reads directories of minibroker and of Apache Kafka, also while a broker uses them, and on read-only volumes. Contradictions are reported
as problems, one line each. With most of them a broker does not start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minibroker.cluster.directories.log_opening import LAST_RESERVED_DIRECTORY_ID
from minibroker.cluster.metadata.features import problems_of
from minibroker.cluster.metadata.frame import metadata_version_name
from minibroker.cluster.metadata.metadata_image import TOPIC_RESOURCE, MetadataImage
from minibroker.cluster.metadata.metadata_reader import FOLDER, MetadataReader
from minibroker.cluster.metadata.quorum import QUORUM_STATE, read_quorum_state
from minibroker.cluster.metadata.snapshot import BOOTSTRAP, read_snapshot
from minibroker.cluster.topic import Topic
from minibroker.errors import ConfigurationError
from minibroker.storage.directory_files import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    MetaProperties,
    format_uuid,
    is_locked,
    read_meta_properties,
)
from minibroker.storage.files import Files
from minibroker.storage.log_file_names import LOG, parse_file_name, parse_folder_name


class StorageReport(NamedTuple):
    """The report as JSON values. None means unknown."""

    cluster_id: str | None
    node_id: int | None
    directories: list[dict[str, Any]]  #: path, directory_id, is_formatted, is_clean, is_in_use, partitions, bytes
    metadata: dict[str, Any] | None  #: of the metadata log; None if no directory has one
    features: dict[str, int]
    topics: list[dict[str, Any]]
    problems: list[str]


def report_storage(files: Files, paths: Sequence[str]) -> StorageReport:
    """Report log directories of one node. Raise FileNotFoundError or NotADirectoryError if a path is not a directory."""
    problems: list[str] = []
    metas = {path: _meta(files, path, problems) for path in paths}
    sizes: dict[tuple[str, int], int] = {}
    directories = [_directory(files, path, metas[path], sizes) for path in paths]
    for field in ("cluster_id", "node_id"):
        owners = {str(getattr(meta, field)): path for path, meta in metas.items() if meta is not None}
        if len(owners) > 1:
            listed = ", ".join(f"{path} to {value}" for value, path in owners.items())
            problems.append(f"the directories belong to different {field.removesuffix('_id')}s: {listed}")
    known = [meta for meta in metas.values() if meta is not None]
    cluster_id = next((meta.cluster_id for meta in known if meta.cluster_id), None)
    node_id = next((meta.node_id for meta in known if meta.node_id is not None), None)
    image = MetadataImage(-1 if node_id is None else node_id)
    metadata = None
    for path in paths:
        if files.exists(f"{path}/{FOLDER}"):
            if metadata is not None:
                problems.append(f"{path} also has a metadata log: the one in {metadata['path']} is used")
                continue
            metadata = _metadata(files, path, image, problems)
        elif metadata is None and files.exists(f"{path}/{BOOTSTRAP}"):
            _bootstrap(files, path, image, problems)
    _compare(image, metadata, node_id, problems)
    _compare_places(image, [meta.directory_id for meta in known], node_id, problems)
    topics = [_topic(topic, image, sizes) for topic in sorted(image.topics.values(), key=lambda topic: topic.name)]
    return StorageReport(cluster_id, node_id, directories, metadata, dict(image.features), topics, problems)


def _meta(files: Files, path: str, problems: list[str]) -> MetaProperties | None:
    try:
        return read_meta_properties(files, f"{path}/{META_PROPERTIES}")
    except ConfigurationError as error:
        problems.append(str(error))
        return None


def _directory(files: Files, path: str, meta: MetaProperties | None, sizes: dict[tuple[str, int], int]) -> dict[str, Any]:
    count = total = 0
    for name in files.names(path):
        try:
            key = parse_folder_name(name)
        except ValueError:
            continue
        try:
            found = [(file, parse_file_name(file)) for file in files.names(f"{path}/{name}")]
            size = sum(files.size(f"{path}/{name}/{file}") for file, parsed in found if parsed is not None and parsed[1] == LOG)
        except (NotADirectoryError, FileNotFoundError):  # a file, or a running broker removed the folder
            continue
        total += size
        if name != FOLDER:
            count += 1
            sizes[key] = sizes.get(key, 0) + size
    return {
        "path": path,
        "directory_id": None if meta is None else meta.directory_id,
        "is_formatted": meta is not None,
        "is_clean": files.exists(f"{path}/{CLEAN_SHUTDOWN}"),
        "is_in_use": _is_in_use(files, path),
        "partitions": count,
        "bytes": total,
    }


def _is_in_use(files: Files, path: str) -> bool:
    try:
        return is_locked(files, f"{path}/{LOCK}")
    except OSError:  # it does not exist or cannot be read
        return False


def _metadata(files: Files, path: str, image: MetadataImage, problems: list[str]) -> dict[str, Any]:
    reader = MetadataReader(files, f"{path}/{FOLDER}")
    leader_epoch, state_voters = 0, frozenset[int]()
    try:
        for record in reader.records():
            image.apply(record)
        image.check_complete()
        if not image.features and files.exists(f"{path}/{BOOTSTRAP}"):
            _bootstrap(files, path, image, problems)
        state = read_quorum_state(files, f"{path}/{FOLDER}/{QUORUM_STATE}")
        if state is not None:
            leader_epoch, state_voters = state.leader_epoch, state.voters
    except ConfigurationError as error:
        problems.append(str(error))
    return {
        "path": path,
        "log_start_offset": reader.segments[0] if reader.segments else None,
        "log_end_offset": reader.log_end_offset,
        "leader_epoch": max(reader.leader_epoch, leader_epoch),
        "snapshots": [snapshot.name for snapshot in reader.snapshots],
        "torn_bytes": reader.torn_bytes,
        "kraft_version": reader.quorum.kraft_version,
        "voters": sorted(reader.quorum.voter_ids or state_voters),
        "next_producer_id": image.next_producer_id,
    }


def _bootstrap(files: Files, path: str, image: MetadataImage, problems: list[str]) -> None:
    try:
        for record in read_snapshot(files, f"{path}/{BOOTSTRAP}").records:
            image.apply(record)
    except ConfigurationError as error:
        problems.append(str(error))


def _compare(image: MetadataImage, metadata: dict[str, Any] | None, node_id: int | None, problems: list[str]) -> None:
    if image.features:
        problems += problems_of(image.features)
    others = [voter for voter in metadata["voters"] if voter != node_id] if metadata is not None else []
    if others:
        problems.append(f"the metadata log belongs to a quorum with node {', '.join(map(str, others))}: one node alone cannot continue it")
    elsewhere = [
        f"{topic.name}-{partition.index}"
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id is not None and node_id not in image.partition_record(partition).replicas
    ]
    if elsewhere:
        problems.append(f"{len(elsewhere)} partitions have no replica on node {node_id}, {elsewhere[0]} is the first: they are offline")


def _compare_places(image: MetadataImage, directory_ids: Sequence[str | None], node_id: int | None, problems: list[str]) -> None:
    """Check that the metadata log has all partitions of this node in one of the directories."""
    if None in directory_ids:
        return
    elsewhere = [
        f"{topic.name}-{partition.index}"
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id in image.partition_record(partition).replicas
        and partition.directory_id.int > LAST_RESERVED_DIRECTORY_ID
        and format_uuid(partition.directory_id) not in directory_ids
    ]
    if elsewhere:
        problems.append(f"{len(elsewhere)} partitions are in other directories, {elsewhere[0]} is the first: name all log.dirs of the node")


def _topic(topic: Topic, image: MetadataImage, sizes: dict[tuple[str, int], int]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": format_uuid(topic.topic_id),
        "partitions": len(topic.partitions),
        "bytes": sum(sizes.get((topic.name, partition.index), 0) for partition in topic.partitions),
        "is_internal": topic.is_internal,
        "configs": dict(image.config_of(TOPIC_RESOURCE, topic.name)),
    }


def version_text(level: int) -> str:
    """Return a metadata.version as Kafka's tools print it."""
    return f"{level} ({metadata_version_name(level)})"
