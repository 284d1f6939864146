"""`leader-epoch-checkpoint`: the start offset of each leader epoch; a line is `epoch start_offset`, both growing.

Source: LeaderEpochCheckpointFile and LeaderEpochFileCache of Apache Kafka.
"""

from __future__ import annotations

from bisect import bisect_right

from minibroker.errors import CorruptLogError
from minibroker.storage.checkpoint_file import read_lines, write_lines
from minibroker.storage.files import Files

NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCheckpoint:
    """The epochs of one log, in memory and in its file. Each change except `note` is written at once: epochs change rarely.

    The file is not synced: the batches carry their epoch, and recovery reads them.
    """

    __slots__ = ("_epochs", "_files", "_is_saved", "_start_offsets", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self._is_saved = True  #: the file has the entries in memory

    def load(self) -> None:
        """Read the file. Raises CorruptLogError if it is invalid; there are no entries then."""
        entries: list[tuple[int, int]] = []
        for line in read_lines(self._files, self.path):
            if len(line) != 2 or not (line[0].isdecimal() and line[1].isdecimal()):
                raise CorruptLogError(f"{self.path}: {' '.join(line)!r} is no epoch and offset")
            entry = int(line[0]), int(line[1])
            if entries and not (entry[0] > entries[-1][0] and entry[1] >= entries[-1][1]):
                raise CorruptLogError(f"{self.path}: epochs and offsets do not grow")
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
        """Drop epochs that begin at or above `end_offset`."""
        keep = len(self._start_offsets)
        while keep and self._start_offsets[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self._write()

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop epochs that end at or below `start_offset`; the epoch that contains it now begins there."""
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
        """Go on in another folder, to which `write_to` wrote."""
        self.path = f"{folder}/{self.path.rpartition('/')[2]}"
