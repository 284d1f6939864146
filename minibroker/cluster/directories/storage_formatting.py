"""Format log directories as `kafka-storage format --standalone` does, for minibroker or Apache Kafka.

    meta.properties                                                       in each directory: cluster.id, node.id, directory.id
    bootstrap.checkpoint                                                  in the metadata directory: features and SCRAM users of the cluster
    __cluster_metadata-0/00000000000000000000-0000000000.checkpoint      kraft.version and the one voter

`minibroker serve` does not need it: it becomes the owner of a directory without one. Source: Formatter of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from minibroker.cluster.directories.log_directory import random_uuid
from minibroker.cluster.metadata.features import RECORDED, default_levels, unmet_dependency
from minibroker.cluster.metadata.frame import METADATA_VERSION, METADATA_VERSION_FEATURE
from minibroker.cluster.metadata.metadata_reader import FOLDER
from minibroker.cluster.metadata.quorum import Quorum, quorum_of
from minibroker.cluster.metadata.scram_credentials import METADATA_VERSION_SINCE, ScramUpsertion, record_of
from minibroker.cluster.metadata.snapshot import BOOTSTRAP, Snapshot, SnapshotId, snapshot_batches, write_snapshot
from minibroker.errors import ConfigurationError
from minibroker.schemas.internal.setting_records import FeatureLevelRecord
from minibroker.storage.directory_files import (
    LOCK,
    META_PROPERTIES,
    DirectoryLock,
    MetaProperties,
    check_owner,
    format_uuid,
    parse_uuid,
    read_meta_properties,
    write_meta_properties,
)
from minibroker.storage.files import Files

_DYNAMIC_VOTERS_SINCE = 21  #: metadata.version 3.9-IV0: older brokers do not support kraft.version


class _Beginning(NamedTuple):
    """What a new metadata log begins with."""

    levels: Mapping[str, int]  #: of features
    scram_users: Sequence[ScramUpsertion]


def format_directories(
    files: Files,
    paths: Sequence[str],
    *,
    metadata_path: str,
    cluster_id: str | None,
    node_id: int,
    features: Mapping[str, int],
    ignore_formatted: bool,
    now_ms: int,
    scram_users: Sequence[ScramUpsertion] = (),
) -> tuple[str, list[str]]:
    """Format those of `paths` that have no owner yet. `metadata_path` is the one with the metadata log.

    Returns:
        The cluster id, and the formatted paths.

    Raises:
        ConfigurationError: A directory is formatted already, belongs to another node, or is in use. Nothing was written.
    """
    beginning = _Beginning(_checked(features), scram_users)
    if scram_users and beginning.levels[METADATA_VERSION_FEATURE] < METADATA_VERSION_SINCE:
        raise ConfigurationError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    if cluster_id is not None:
        _check_id(cluster_id)
    locks: list[DirectoryLock] = []
    try:
        known = {}
        for path in paths:
            files.make_directory(path)
            locks.append(DirectoryLock(files, f"{path}/{LOCK}"))
            known[path] = read_meta_properties(files, f"{path}/{META_PROPERTIES}")
        for path, meta in known.items():
            if meta is not None:
                check_owner(f"{path}/{META_PROPERTIES}", meta, cluster_id=cluster_id, node_id=node_id)
                if not ignore_formatted:
                    raise ConfigurationError(f"{path} is formatted already; --ignore-formatted leaves it as it is and formats the others")
                cluster_id = cluster_id or meta.cluster_id
        cluster_id = cluster_id or format_uuid(random_uuid())
        formatted = [path for path, meta in known.items() if meta is None]
        for path in sorted(formatted, key=lambda path: path != metadata_path):
            owner = MetaProperties(cluster_id, node_id)
            _format(files, path, owner, beginning if path == metadata_path else None, now_ms)
    finally:
        for lock in locks:
            lock.release()
    return cluster_id, formatted


def _format(files: Files, path: str, owner: MetaProperties, beginning: _Beginning | None, now_ms: int) -> None:
    directory_id = random_uuid()
    node_id = owner.node_id or 0
    if beginning is not None:
        if files.exists(f"{path}/{FOLDER}"):
            raise ConfigurationError(f"{path} has no {META_PROPERTIES}, but a metadata log: it is not formatted")
        version = beginning.levels[METADATA_VERSION_FEATURE]
        quorum = quorum_of(node_id, directory_id) if version >= _DYNAMIC_VOTERS_SINCE else Quorum()
        records: list[Any] = [FeatureLevelRecord(name=name, feature_level=level) for name, level in beginning.levels.items()]
        records += map(record_of, beginning.scram_users)
        contents = {f"{path}/{BOOTSTRAP}": Snapshot(Quorum(), records, 0)}
        if quorum.voters is not None:
            files.make_directory(f"{path}/{FOLDER}")
            contents[f"{path}/{FOLDER}/{SnapshotId(0, 0).name}"] = Snapshot(quorum, [], now_ms)
        for name, snapshot in contents.items():
            write_snapshot(files, name, snapshot_batches(snapshot, epoch=0, metadata_version=version, now_ms=now_ms))
    write_meta_properties(files, f"{path}/{META_PROPERTIES}", owner._replace(directory_id=format_uuid(directory_id)), now_ms=now_ms)


def _checked(features: Mapping[str, int]) -> dict[str, int]:
    """Return checked levels, including those of a new metadata log. metadata.version comes first, as Kafka requires."""
    for name, level in features.items():
        if name not in RECORDED:
            raise ConfigurationError(f"there is no feature {name}; there are {', '.join(sorted(RECORDED))}")
        lowest, highest = RECORDED[name]
        if not lowest <= level <= highest:
            raise ConfigurationError(f"{name} {level}: {lowest} to {highest} are known")
    levels = default_levels(features.get(METADATA_VERSION_FEATURE, METADATA_VERSION)) | dict(features)
    for name in levels:
        if (problem := unmet_dependency(levels, name)) is not None:
            raise ConfigurationError(problem)
    return dict(sorted(((name, level) for name, level in levels.items() if level), key=lambda each: each[0] != METADATA_VERSION_FEATURE))


def _check_id(cluster_id: str) -> None:
    try:
        parse_uuid(cluster_id)
    except ValueError as error:
        raise ConfigurationError(f"cluster id {error}. Without --cluster-id, a random id is used") from None
