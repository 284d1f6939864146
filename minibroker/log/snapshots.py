"""The producer snapshots of one log: which there are, taking and reading them.

A snapshot is taken at the log end when a segment rolls and when the log closes, if the log has grown since the last one; also without
any producer, as Kafka does: an empty snapshot says that nothing need be read back.
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
    """Offsets of the `.snapshot` files of a folder."""

    __slots__ = ("_files", "directory", "offsets")

    def __init__(self, files: Files, directory: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: int) -> str:
        """Where the snapshot at `offset` lies."""
        return f"{self.directory}/{file_name(offset, SNAPSHOT)}"

    def take(self, state: ProducerState, log_start_offset: int) -> None:
        """Write the state at its end offset, unless the newest snapshot is as new. Not synced: its CRC tells what is whole.

        One more than Kafka takes: when all records were deleted, the producers are still known after a restart.
        """
        newest = self.offsets[-1] if self.offsets else log_start_offset
        if state.end_offset > newest or (state.producers and not self.offsets):
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.append(state.end_offset)

    def complete(self, state: ProducerState) -> None:
        """Write the state at its end offset if there is no such snapshot; newer ones may be there."""
        index = bisect_right(self.offsets, state.end_offset)
        if not index or self.offsets[index - 1] != state.end_offset:
            replace_file(self._files, self.path(state.end_offset), producer_snapshot.encode(state.to_snapshot()), sync=False)
            self.offsets.insert(index, state.end_offset)

    def restore(self, state: ProducerState, up_to: int, log_start_offset: int) -> None:
        """Give `state` the newest whole snapshot at or below `up_to`; delete broken ones and those above."""
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
        """Give `state` the newest whole snapshot at or below `up_to`; nothing, from offset 0 on, when there is none."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, up_to)]):
            with suppress(CorruptLogError, FileNotFoundError):
                state.load_snapshot(producer_snapshot.decode(read_all(self._files, self.path(offset))), offset)
                return
        state.load_snapshot([], 0)

    def remove(self, offset: int) -> None:
        """Delete one, if it is there."""
        index = bisect_right(self.offsets, offset) - 1
        if index >= 0 and self.offsets[index] == offset:
            del self.offsets[index]
            self._files.remove(self.path(offset))

    def retire_below(self, offset: int) -> list[str]:
        """Rename those that no recovery will ask for, of segments that are gone, out of the way; what is to be removed later."""
        retired = []
        while self.offsets and self.offsets[0] < offset:
            path = self.path(self.offsets[0])
            with suppress(FileNotFoundError):
                self._files.rename(path, path + DELETED)
                retired.append(path + DELETED)
            del self.offsets[0]
        return retired
