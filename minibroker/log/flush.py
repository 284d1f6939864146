"""Making a log durable without stopping it: begin on the owner's thread, sync on another, end on the owner's.

    flush = log.begin_flush()      descriptors of all that is not synced, duplicated: the log may go on, roll, even close
    flush.run()                    fsync; OSError
    log.end_flush(flush, error)    the recovery point moves, or the log goes offline

A failed fsync is never tried again: the system may have dropped the pages and call the next one a success (PostgreSQL learned it in
2018), so what was acknowledged could be gone behind a good answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from minibroker.storage.files import READ_ONLY, Files
from minibroker.storage.segment import Segment


class Flush:
    """Everything below `end_offset` that may not be on the disk yet. `run` once, `close` in any case (`end_flush` does)."""

    __slots__ = ("_descriptors", "_directories", "_files", "end_offset", "folder_changes")

    def __init__(
        self,
        files: Files,
        segments: Sequence[Segment],
        *,
        end_offset: int,
        index_paths: Iterable[str],
        directories: Sequence[str],
        folder_changes: int = 0,
    ) -> None:
        self._files = files
        self._descriptors: list[int] = []
        self._directories = directories
        self.end_offset = end_offset
        self.folder_changes = folder_changes  #: those that `directories` make durable; none of them counts before `run` has returned
        try:
            for segment in segments:
                self._descriptors.append(files.handles.duplicate(segment.log))
            for path in index_paths:
                with contextlib.suppress(FileNotFoundError):  # most segments have no .txnindex
                    self._descriptors.append(files.handles.open_path(path, READ_ONLY))
        except OSError:
            self.close()
            raise

    def run(self) -> None:
        """Return when all is on the disk. Logs first: they are what was acknowledged."""
        for descriptor in self._descriptors:
            self._files.sync(descriptor)
        for directory in self._directories:
            self._files.sync_directory(directory)

    def close(self) -> None:
        """Give the descriptors back."""
        while self._descriptors:
            self._files.close(self._descriptors.pop())
