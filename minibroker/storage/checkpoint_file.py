"""Kafka's text checkpoints: a version, a count, so many lines.

    0
    2
    orders 0 1500
    orders 1 1498

Written whole into a temporary file and renamed. Source: CheckpointFile of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.errors import CorruptLogError
from minibroker.storage.files import Files, read_all, replace_file

VERSION = "0"


def read_lines(files: Files, path: str) -> list[list[str]]:
    """The words of each line; none when the file is missing or empty. CorruptLogError when it is no checkpoint."""
    try:
        text = read_all(files, path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise CorruptLogError(f"{path}: no text") from None
    if not text:
        return []
    version, _, rest = text.partition("\n")
    count, _, rest = rest.partition("\n")
    lines = [line.split(" ") for line in rest.splitlines()]
    if version != VERSION or not count.isdecimal() or int(count) != len(lines):
        raise CorruptLogError(f"{path}: no checkpoint of version {VERSION} with as many lines as it says")
    return lines


def write_lines(files: Files, path: str, lines: Sequence[str], *, sync: bool) -> None:
    """Replace the checkpoint."""
    replace_file(files, path, "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode(), sync=sync)
