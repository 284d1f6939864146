"""Names inside a partition's folder: 20 digits of a base offset and a suffix; and the folder's own name, topic-partition.

    00000000000000000042.log  .index  .timeindex  .txnindex  .snapshot   see their modules
    ....deleted                                                          renamed before removal; the next start removes it
    ....cleaned  ....swap                                                files of a running compaction

A deleted topic's folder is renamed to `topic-partition.<32 hexadecimal digits>-delete`. A folder whose topic is not in the metadata log is
renamed to `...-stray`. A copy in another log directory is `topic-partition.<32 digits>-future` until it is complete.
"""

from __future__ import annotations

import re

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
TEMPORARY = ".tmp"  #: of a file that replaces another one
DELETE_FOLDER = "-delete"
STRAY_FOLDER = "-stray"
FUTURE_FOLDER = "-future"

MAX_FOLDER_NAME = 255

_FILE = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")

_FUTURE = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-future")


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Return base offset and suffix of a segment's file; None for other names."""
    match = _FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_folder_name(name: str) -> tuple[str, int]:
    """Return topic and partition. Raises ValueError for other names."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isdecimal() and partition.isascii()):
        raise ValueError(f"{name!r} is not a folder of a partition")
    return topic, int(partition)


def future_folder_name(name: str, unique: str) -> str:
    """Return the name of an unfinished copy of a partition's folder; it may be longer than MAX_FOLDER_NAME."""
    return f"{name}.{unique}{FUTURE_FOLDER}"


def copied_folder_name(name: str) -> str | None:
    """Return the name of the folder that a `-future` folder copies; None for other names."""
    match = _FUTURE.fullmatch(name)
    return match[1] if match else None


def delete_folder_name(name: str, unique: str) -> str:
    """Return the name of a folder that is being deleted; a topic name that would make it too long is shortened."""
    return folder_name_on_its_way(name, unique, DELETE_FOLDER)


def folder_name_on_its_way(name: str, unique: str, kind: str) -> str:
    """Return the name of a folder that is no longer a partition; `kind` is DELETE_FOLDER or STRAY_FOLDER."""
    suffix = f".{unique}{kind}"
    return name[: MAX_FOLDER_NAME - len(suffix)] + suffix
