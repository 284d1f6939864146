"""The small files of a log directory: `meta.properties`, `.lock`, `.kafka_cleanshutdown`, and `partition.metadata` of its folders.

`meta.properties`: the owner of a log directory. A Java properties file, version 1.

    #
    #Sat Nov 21 09:35:35 UTC 2026
    node.id=1
    directory.id=MPQNKnwbTYOf66YZ8KA3Lg
    version=1
    cluster.id=AAAAAAAAAAAAAAAAAAAAAQ

Version 0 (before KRaft) names the node `broker.id`. Source: MetaProperties of Apache Kafka.

`.lock`: an empty file that keeps all but one process out of a log directory.

The file has two kinds of lock. flock keeps out a second minibroker, also in the same process. A POSIX record lock keeps out
Apache Kafka, whose FileChannel.tryLock takes that kind. The system drops both when the process dies.

`.kafka_cleanshutdown`: written last when a broker stops, removed first when it starts; JSON in one line.

    {"version":0,"brokerEpoch":13}

If it exists, every log of the directory is complete and its indexes are trimmed. Source: CleanShutdownFileHandler of Apache Kafka.

`partition.metadata`: the topic id of a partition's folder; two lines, the second without a newline.

    version: 0
    topic_id: WaNbrBVZQOW3aZA4zdmEqg

The id is base64 for URLs without padding, as Kafka's Uuid.toString. Source: PartitionMetadataFile of Apache Kafka.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import os
import os.path
import time
import uuid
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from minibroker.errors import ConfigurationError, CorruptLogError
from minibroker.storage.files import APPEND, READ_ONLY, Files, read_all, replace_file

META_PROPERTIES = "meta.properties"
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
        problem = "it has no version" if version is None else f"version {version!r} is not known"
        raise ConfigurationError(f"{path}: {problem}: is this a Kafka log directory?")
    node_id = properties.get("node.id", properties.get("broker.id"))
    if node_id is not None and not node_id.isdecimal():
        raise ConfigurationError(f"{path}: node.id {node_id!r} is not a number")
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


LOCK = ".lock"

_HELD = {errno.EAGAIN, errno.EACCES}  #: by another process

_FLOCK = Struct("hhqqi4x")  #: struct flock of 64-bit Linux: type, whence, start, length, process id


class DirectoryLock:
    """A lock that is held from construction to `release`. Raises ConfigurationError if another process has it."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._descriptor = files.open(path, APPEND)
        try:
            files.lock(self._descriptor)
        except OSError as error:
            self.release()
            if error.errno not in _HELD:
                raise
            where = Path(path).absolute()
            raise ConfigurationError(
                f"{where} is locked: another broker uses this log directory. Stop it, or use another directory"
            ) from None

    def release(self) -> None:
        """Release the lock; does nothing if it was released before."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._files.close(descriptor)


def is_locked(files: Files, path: str) -> bool:
    """Whether another process holds the lock, Apache Kafka or minibroker. Does not take it. Raises OSError if the file cannot be read.

    The process that holds the lock must not call this: closing the file drops its lock. On systems other than 64-bit Linux a lock cannot
    be queried without taking it: returns False there.
    """
    if os.uname().sysname != "Linux":
        return False
    descriptor = files.open(path, READ_ONLY)
    try:
        query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found: int = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))[0]
        return found != fcntl.F_UNLCK
    finally:
        files.close(descriptor)


CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


def mark_clean_shutdown(files: Files, path: str, *, broker_epoch: int) -> None:
    """Write the marker and sync it and its folder."""
    replace_file(files, path, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode(), sync=True)


def take_clean_shutdown(files: Files, path: str) -> bool:
    """Remove the marker and return whether it existed. The removal is synced, so that a later crash is recognised."""
    if not files.exists(path):
        return False
    files.remove(path)
    files.sync_directory(os.path.dirname(path))  # noqa: PTH120  a marker that a power loss brings back would hide that loss
    return True


PARTITION_METADATA = "partition.metadata"
_PARTITION_METADATA_VERSION = 0


def format_uuid(value: uuid.UUID) -> str:
    """Return the 22 characters of an id."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> uuid.UUID:
    """Return the id of 22 characters. Raises ValueError."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is not an id of 22 characters")
    try:
        return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id: {error}") from None


def read_topic_id(files: Files, path: str) -> uuid.UUID | None:
    """Return the topic id; None if there is none. The file is not synced, so a power loss may leave nothing, zeros or a part of it.

    Raises CorruptLogError for an unknown version.
    """
    try:
        text = read_all(files, path).decode(errors="replace")
    except FileNotFoundError:
        return None
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    try:
        if int(fields["version"]) != _PARTITION_METADATA_VERSION:
            raise CorruptLogError(f"{path}: unknown version {fields['version']}")
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError):
        return None


def write_topic_id(files: Files, path: str, topic_id: uuid.UUID, *, sync: bool = False) -> None:
    """Write the file. By default it is not synced: the metadata log has the id as well."""
    replace_file(files, path, f"version: {_PARTITION_METADATA_VERSION}\ntopic_id: {format_uuid(topic_id)}".encode(), sync=sync)
