"""The producer snapshots of a log: list, write and read them.

A snapshot is written at the log end when a segment rolls and when the log closes, if the log has grown since the last one. As in Kafka,
also without any producer: after an empty snapshot no batches need be read back.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress

from minibroker.errors import CorruptLogError
from minibroker.log.producer_state import ProducerState
from minibroker.storage import producer_snapshot
from minibroker.storage.files import Files, read_all, replace_file
from minibroker.storage.log_file_names import DELETED, SNAPSHOT, file_name

logger = logging.getLogger(__name__)


class Snapshots:
    """The `.snapshot` files of a folder by offset."""

    __slots__ = ("_files", "directory", "offsets")

    def __init__(self, files: Files, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        """Return the path of the snapshot at `offset`."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"

    def take(self, state: ProducerState, log_start_offset: int) -> None:
        """Write the state at its end offset unless there is a snapshot of it. It is not synced: a CRC shows whether it is whole.

        In addition to Kafka: if all records were deleted, producers are still known after a restart.
        """
        newest = self.offsets[-1] if self.offsets else log_start_offset
        if state.end_offset > newest or (state.producers and not self.offsets):
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.append(state.end_offset)

    def complete(self, state: ProducerState) -> None:
        """Write the state at its end offset if there is no such snapshot; there may be newer ones."""
        index = bisect_right(self.offsets, state.end_offset)
        if not index or self.offsets[index - 1] != state.end_offset:
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.insert(index, state.end_offset)

    def restore(self, state: ProducerState, up_to: int, log_start_offset: int) -> None:
        """Load the newest whole snapshot at or below `up_to` into `state`; delete broken ones and those above."""
        while self.offsets:
            offset = self.offsets[-1]
            if offset <= up_to:
                try:
                    state.load_snapshot(producer_snapshot.decode(read_all(self._files, self.path(offset))), offset)
                except (CorruptLogError, FileNotFoundError) as error:
                    logger.warning("%s: %s: removed", self.path(offset), error)
                else:
                    return
            self.remove(offset)
        state.load_snapshot([], log_start_offset)

    def load_newest(self, state: ProducerState, up_to: int) -> None:
        """Load the newest whole snapshot at or below `up_to` into `state`; the empty state at offset 0 if there is none."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, up_to)]):
            with suppress(CorruptLogError, FileNotFoundError):
                state.load_snapshot(producer_snapshot.decode(read_all(self._files, self.path(offset))), offset)
                return
        state.load_snapshot([], 0)

    def remove(self, offset: int) -> None:
        """Delete the snapshot at `offset` if there is one."""
        index = bisect_right(self.offsets, offset) - 1
        if index >= 0 and self.offsets[index] == offset:
            del self.offsets[index]
            self._files.remove(self.path(offset))

    def retire_below(self, offset: int) -> list[str]:
        """Rename the snapshots of deleted segments to `.deleted`, and return the paths to remove later."""
        retired = []
        while self.offsets and self.offsets[0] < offset:
            path = self.path(self.offsets[0])
            with suppress(FileNotFoundError):
                self._files.rename(path, path + DELETED)
                retired.append(path + DELETED)
            del self.offsets[0]
        return retired
