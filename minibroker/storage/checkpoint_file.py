"""Kafka's text checkpoints: a version, a count, so many lines.

    0
    2
    orders 0 1500
    orders 1 1498

The offset checkpoints of a log directory have a line `topic partition offset` for each partition:

    recovery-point-offset-checkpoint   everything below is on the disk: recovery begins there
    log-start-offset-checkpoint        for partitions whose log_start_offset lies inside their first segment
    replication-offset-checkpoint      high watermarks
    cleaner-offset-checkpoint          how far compaction has come

leader_epoch_checkpoint.py has the other kind. A checkpoint is written whole into a temporary file and renamed.
Source: CheckpointFile, OffsetCheckpointFile of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minibroker.errors import CorruptLogError
from minibroker.storage.files import Files, read_all, replace_file

VERSION = "0"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
REPLICATION_OFFSET = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
INT64_MAX = 2**63 - 1


def read_lines(files: Files, path: str) -> list[list[str]]:
    """Return the words of each line; none if the file is missing or empty. Raises CorruptLogError if it is not a checkpoint."""
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


class OffsetCheckpoint:
    """One of the offset checkpoints."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def read(self) -> dict[tuple[str, int], int]:
        """Return offsets by topic and partition; none if the file is missing. Raises CorruptLogError if it is not a checkpoint."""
        offsets = {}
        for line in read_lines(self._files, self.path):
            if len(line) != 3 or not (line[1].isdecimal() and line[2].isdecimal()):
                raise CorruptLogError(f"{self.path}: {' '.join(line)!r} is no topic, partition and offset")
            offsets[line[0], int(line[1])] = offset = int(line[2])
            if offset > INT64_MAX:
                raise CorruptLogError(f"{self.path}: {offset} is no offset")
        return offsets

    def write(self, offsets: Mapping[tuple[str, int], int], *, sync: bool = True) -> None:
        """Replace the file."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        write_lines(self._files, self.path, lines, sync=sync)
