"""The checkpoints of a log directory: one offset for each partition; a line is `topic partition offset`.

    recovery-point-offset-checkpoint   below it everything is on the disk: recovery begins there
    log-start-offset-checkpoint        for partitions whose log_start_offset lies inside their first segment
    replication-offset-checkpoint      high watermarks
    cleaner-offset-checkpoint          how far compaction has come

Source: OffsetCheckpointFile of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from minibroker.errors import CorruptLogError
from minibroker.storage.checkpoint_file import read_lines, write_lines
from minibroker.storage.files import Files

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET = "log-start-offset-checkpoint"
REPLICATION_OFFSET = "replication-offset-checkpoint"
CLEANER_OFFSET = "cleaner-offset-checkpoint"
INT64_MAX = 2**63 - 1


class OffsetCheckpoint:
    """One such file."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def read(self) -> dict[tuple[str, int], int]:
        """Offsets by topic and partition; empty when the file is missing. CorruptLogError when it is no checkpoint."""
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
