"""Names inside a partition's folder: 20 digits of a base offset and a suffix; and the folder's own name, topic-partition.

    00000000000000000042.log  .index  .timeindex  .txnindex  .snapshot   what their modules say
    ....deleted                                                          on its way out, removed at the next start
    ....cleaned  ....swap                                                compaction at work

A topic that is being deleted has its folder renamed to `topic-partition.<32 hexadecimal digits>-delete`; one whose topic the metadata log
does not know is set aside as `...-stray`. A copy that is made in another log directory is `topic-partition.<32 digits>-future`.
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
    """The name of a segment's file."""
    return f"{base_offset:020d}{suffix}"


def parse_file_name(name: str) -> tuple[int, str] | None:
    """Base offset and suffix of a segment's file; None for other names."""
    match = _FILE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def parse_folder_name(name: str) -> tuple[str, int]:
    """Topic and partition; ValueError for other names."""
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isdecimal() and partition.isascii()):
        raise ValueError(f"{name!r} is no folder of a partition")
    return topic, int(partition)


def future_folder_name(name: str, unique: str) -> str:
    """What the copy of a partition's folder is called until it takes its place; it may be longer than MAX_FOLDER_NAME."""
    return f"{name}.{unique}{FUTURE_FOLDER}"


def copied_folder_name(name: str) -> str | None:
    """The name of the folder that a `-future` folder is a copy of; None for other names."""
    match = _FUTURE.fullmatch(name)
    return match[1] if match else None


def delete_folder_name(name: str, unique: str) -> str:
    """What a folder is called until its files are gone; a topic's name gives way when all would be too long."""
    return folder_name_on_its_way(name, unique, DELETE_FOLDER)


def folder_name_on_its_way(name: str, unique: str, kind: str) -> str:
    """What a folder is called that is no partition any more; `kind` is DELETE_FOLDER or STRAY_FOLDER."""
    suffix = f".{unique}{kind}"
    return name[: MAX_FOLDER_NAME - len(suffix)] + suffix
