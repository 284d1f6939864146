"""Making a log durable without stopping it: begin on the owner's thread, sync on another, end on the owner's.

    flush = log.begin_flush()      descriptors of what is not synced, duplicated: the log may go on, roll, even close
    flush.run()                    fsync; OSError
    log.end_flush(flush, error)    the recovery point moves, or the log goes offline

A failed fsync is never tried again: the system may have dropped the pages and call the next one a success (PostgreSQL learned it in
2018), so what was acknowledged could be gone behind a good answer.

Only the newest segments have descriptors waiting. Behind a lost recovery point all segments of a log are to be synced, more than a
process may have open; older ones are opened one after the other. What is gone by then was deleted, or compacted and synced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from minibroker.storage.files import READ_ONLY, Files
from minibroker.storage.segment import Segment
from minibroker.storage.transaction_index import TransactionIndex

OPEN_SEGMENTS: Final = 16


class Flush:
    """Everything below `end_offset` that may not be on the disk yet. `run` once, `close` in any case (`end_flush` does).

    `segments` are in order; of the `growing` one the indexes are left out, a recovery makes them anew. Not so `aborted`, its `.txnindex`
    if that is not synced: when the segment grows no more, a recovery may begin behind it.
    """

    __slots__ = (
        "_aborted",
        "_aborted_count",
        "_descriptors",
        "_directories",
        "_files",
        "_paths",
        "end_offset",
        "folder",
        "folder_changes",
        "oldest_transaction",
    )

    def __init__(
        self,
        files: Files,
        segments: Sequence[Segment],
        folder: str,
        *,
        end_offset: int,
        growing: Segment | None,
        directories: Sequence[str],
        aborted: TransactionIndex | None = None,
        folder_changes: int = 0,
    ) -> None:
        self._files = files
        self._descriptors: list[int] = []
        self._directories = directories
        self.end_offset = end_offset
        self.folder = folder  #: of the log, when the flush began
        self.folder_changes = folder_changes  #: those that `directories` make durable; none of them counts before `run` has returned
        self.oldest_transaction: int | None = None  #: first offset of the oldest one that was open; written by PartitionLog
        self._aborted = aborted
        self._aborted_count = len(aborted.entries) if aborted is not None else 0  #: so many entries `run` makes durable
        older, newest = segments[:-OPEN_SEGMENTS], segments[-OPEN_SEGMENTS:]
        self._paths = [path for segment in older for path in segment.paths()]  #: that `run` opens
        try:
            for segment in newest:
                self._descriptors.append(files.handles.duplicate(segment.log))
            for path in [path for segment in newest if segment is not growing for path in segment.paths()[1:]]:
                with contextlib.suppress(FileNotFoundError):  # most segments have no .txnindex
                    self._descriptors.append(files.handles.open_path(path, READ_ONLY))
            if aborted is not None:
                self._descriptors.append(files.handles.open_path(aborted.path, READ_ONLY))
        except OSError:
            self.close()
            raise

    def run(self) -> None:
        """Return when all is on the disk. Logs first: they are what was acknowledged."""
        for descriptor in self._descriptors:
            self._files.sync(descriptor)
        for path in self._paths:
            self._sync_path(path)
        for directory in self._directories:
            self._files.sync_directory(directory)

    def note_synced(self) -> None:
        """`run` came back without an error."""
        if self._aborted is not None:
            self._aborted.note_synced(self._aborted_count)

    def _sync_path(self, path: str) -> None:
        try:
            descriptor = self._files.handles.open_path(path, READ_ONLY)
        except FileNotFoundError:
            return
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def close(self) -> None:
        """Give the descriptors back."""
        while self._descriptors:
            self._files.close(self._descriptors.pop())
