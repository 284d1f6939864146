"""Kafka's text checkpoints, of offsets and of leader epochs: a version, a count, and that many lines.

    0
    2
    orders 0 1500
    orders 1 1498

The offset checkpoints of a log directory have a line `topic partition offset` for each partition:

    recovery-point-offset-checkpoint   everything below is on disk: recovery starts there
    log-start-offset-checkpoint        for partitions whose log_start_offset is inside their first segment
    replication-offset-checkpoint      high watermarks
    cleaner-offset-checkpoint          the offset up to which the log is compacted

A checkpoint is written whole into a temporary file and renamed.
Source: CheckpointFile, OffsetCheckpointFile of Apache Kafka.

`leader-epoch-checkpoint`: the start offset of each leader epoch; a line is `epoch start_offset`, both ascending.

Source: LeaderEpochCheckpointFile and LeaderEpochFileCache of Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_right
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
        raise CorruptLogError(f"{path}: not a text file") from None
    if not text:
        return []
    version, _, rest = text.partition("\n")
    count, _, rest = rest.partition("\n")
    lines = [line.split(" ") for line in rest.splitlines()]
    if version != VERSION or not count.isdecimal() or int(count) != len(lines):
        raise CorruptLogError(f"{path}: not a checkpoint of version {VERSION} with as many lines as its count")
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
                raise CorruptLogError(f"{self.path}: {' '.join(line)!r} is not a topic, partition and offset")
            offsets[line[0], int(line[1])] = offset = int(line[2])
            if offset > INT64_MAX:
                raise CorruptLogError(f"{self.path}: {offset} is not an offset")
        return offsets

    def write(self, offsets: Mapping[tuple[str, int], int], *, sync: bool = True) -> None:
        """Replace the file."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        write_lines(self._files, self.path, lines, sync=sync)


LEADER_EPOCHS = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCheckpoint:
    """The epochs of one log, in memory and in its file. Epochs change rarely, so each change except `note` is written at once.

    The file is not synced: the batches carry their epoch, and recovery reads them.
    """

    __slots__ = ("_epochs", "_files", "_is_saved", "_start_offsets", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self._is_saved = True  #: the file has the entries that are in memory

    def load(self) -> None:
        """Read the file. Raises CorruptLogError if it is invalid; there are no entries then."""
        entries: list[tuple[int, int]] = []
        for line in read_lines(self._files, self.path):
            if len(line) != 2 or not (line[0].isdecimal() and line[1].isdecimal()):
                raise CorruptLogError(f"{self.path}: {' '.join(line)!r} is not an epoch and an offset")
            entry = int(line[0]), int(line[1])
            if entries and not (entry[0] > entries[-1][0] and entry[1] >= entries[-1][1]):
                raise CorruptLogError(f"{self.path}: epochs or offsets are not in ascending order")
            entries.append(entry)
        self._epochs = [epoch for epoch, _ in entries]
        self._start_offsets = [offset for _, offset in entries]

    def reset(self) -> None:
        """Drop all entries, before they are rebuilt."""
        self._epochs, self._start_offsets = [], []

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Pairs of epoch and start offset."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    def note(self, epoch: int, start_offset: int) -> None:
        """Start a newer epoch, in memory until `save`. An older epoch is ignored; an epoch without records is dropped."""
        if epoch > self.latest:
            while self._start_offsets and self._start_offsets[-1] >= start_offset:
                self._epochs.pop()
                self._start_offsets.pop()
            self._epochs.append(epoch)
            self._start_offsets.append(start_offset)
            self._is_saved = False

    def save(self) -> None:
        """Write noted epochs to the file."""
        if not self._is_saved:
            self._write()

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start a newer epoch and write it to the file."""
        self.note(epoch, start_offset)
        self.save()

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop epochs that start at or above `end_offset`."""
        keep = len(self._start_offsets)
        while keep and self._start_offsets[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self._write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that end at or below `start_offset`; the epoch that contains it now starts there."""
        first = bisect_right(self._start_offsets, start_offset) - 1
        if first > 0 or (first == 0 and self._start_offsets[0] < start_offset):
            del self._epochs[:first], self._start_offsets[:first]
            self._start_offsets[0] = start_offset
            self._write()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch up to `epoch` and the offset after its last record; (-1, -1) if there is none."""
        if epoch == UNDEFINED_EPOCH or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        return (self._epochs[higher - 1] if higher else epoch), self._start_offsets[higher]

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of `offset`: the first epoch for lower offsets, -1 if there is none."""
        if not self._epochs:
            return UNDEFINED_EPOCH
        return self._epochs[max(bisect_right(self._start_offsets, offset) - 1, 0)]

    def _write(self) -> None:
        write_lines(self._files, self.path, [f"{epoch} {offset}" for epoch, offset in self.entries], sync=False)
        self._is_saved = True

    def write_to(self, folder: str) -> None:
        """Write and sync the epochs in a copy of the log. Raises OSError."""
        path = f"{folder}/{self.path.rpartition('/')[2]}"
        write_lines(self._files, path, [f"{epoch} {offset}" for epoch, offset in self.entries], sync=True)

    def move(self, folder: str) -> None:
        """Continue in another folder, to which `write_to` wrote."""
        self.path = f"{folder}/{self.path.rpartition('/')[2]}"
