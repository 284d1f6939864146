"""`meta.properties`: the owner of a log directory. A Java properties file, version 1.

    #
    #Sat Nov 21 09:35:35 UTC 2026
    node.id=1
    directory.id=MPQNKnwbTYOf66YZ8KA3Lg
    version=1
    cluster.id=AAAAAAAAAAAAAAAAAAAAAQ

Version 0 (before KRaft) names the node `broker.id`. Source: MetaProperties of Apache Kafka.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from minibroker.errors import ConfigurationError
from minibroker.storage.files import Files, read_all, replace_file

NAME = "meta.properties"
VERSION = "1"


class MetaProperties(NamedTuple):
    """The owner of a log directory; None for properties that the file does not have."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None = None


def read_meta_properties(files: Files, path: str) -> MetaProperties | None:
    """Return the properties; None if the file is missing. Raises ConfigurationError if it is invalid."""
    try:
        text = read_all(files, path).decode("latin-1")
    except FileNotFoundError:
        return None
    lines = [line.strip() for line in text.splitlines()]
    properties = dict(line.replace("\\", "").partition("=")[::2] for line in lines if line and line[0] not in "#!")
    version = properties.get("version")
    if version not in {"0", VERSION}:
        raise ConfigurationError(f"{path}: version {version!r} is not known; is this a Kafka log directory?")
    node_id = properties.get("node.id", properties.get("broker.id"))
    if node_id is not None and not node_id.isdecimal():
        raise ConfigurationError(f"{path}: node.id {node_id!r} is no number")
    return MetaProperties(properties.get("cluster.id"), None if node_id is None else int(node_id), properties.get("directory.id"))


def write_meta_properties(files: Files, path: str, meta: MetaProperties, *, now_ms: int) -> None:
    """Replace and sync the file."""
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    values = {"node.id": meta.node_id, "directory.id": meta.directory_id, "version": VERSION, "cluster.id": meta.cluster_id}
    lines = ["#", f"#{date}", *(f"{key}={value}" for key, value in values.items() if value is not None)]
    replace_file(files, path, "".join(f"{line}\n" for line in lines).encode("latin-1"), sync=True)


def check_owner(path: str, found: MetaProperties, *, cluster_id: str | None, node_id: int) -> None:
    """Raise ConfigurationError if a directory belongs to another cluster or node than the configuration."""
    if cluster_id is not None and found.cluster_id not in {None, cluster_id}:
        raise ConfigurationError(
            f"{path} belongs to cluster {found.cluster_id}, but this broker is configured for cluster {cluster_id}: set cluster.id to that "
            "of the directory, or leave it out"
        )
    if found.node_id not in {None, node_id}:
        raise ConfigurationError(
            f"{path} belongs to node {found.node_id}, but this broker is configured as node {node_id}: set node.id={found.node_id}"
        )
