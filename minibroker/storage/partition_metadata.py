"""`partition.metadata`: the topic id of its folder; two lines, the second without a newline.

    version: 0
    topic_id: WaNbrBVZQOW3aZA4zdmEqg

The id is base64 for URLs without padding, as Kafka's Uuid prints itself. Source: PartitionMetadataFile of Apache Kafka.
"""

from __future__ import annotations

import base64
import binascii
import uuid

from minibroker.errors import CorruptLogError
from minibroker.storage.files import Files, read_all, replace_file

NAME = "partition.metadata"
VERSION = 0


def format_uuid(value: uuid.UUID) -> str:
    """Return the 22 characters of an id."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> uuid.UUID:
    """Return the id of 22 characters. Raises ValueError."""
    if len(text) != 22:
        raise ValueError(f"{text!r} is no id of 22 characters")
    try:
        return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no id: {error}") from None


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
        if int(fields["version"]) != VERSION:
            raise CorruptLogError(f"{path}: unknown version {fields['version']}")
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError):
        return None


def write_topic_id(files: Files, path: str, topic_id: uuid.UUID, *, sync: bool = False) -> None:
    """Write the file. By default it is not synced: the metadata log has the id as well."""
    replace_file(files, path, f"version: {VERSION}\ntopic_id: {format_uuid(topic_id)}".encode(), sync=sync)
