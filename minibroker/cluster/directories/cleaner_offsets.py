"""`cleaner-offset-checkpoint`: how far each log of a log directory is compacted.

The offset of a log is its first dirty one: the cleaner has compacted everything below it. An offset that is too low only costs work. So a
log is entered with its start offset before its first compaction: recovery must know that offsets may be missing in it, even if its policy
changes later. An entry of a deleted topic would keep records of a new topic of that name uncompacted forever. It is removed, from the disk
as well, before the new log is created (`forget`).
"""

from __future__ import annotations

import logging
from collections.abc import Container
from threading import Lock

from minibroker.errors import CorruptLogError
from minibroker.storage.checkpoint_file import CLEANER_OFFSET, OffsetCheckpoint
from minibroker.storage.files import Files

_LOG = logging.getLogger(__name__)

Key = tuple[str, int]  #: topic and partition


class CleanerOffsets:
    """The offsets of one directory. Only `write` may run in a worker thread."""

    def __init__(self, files: Files, directory: str) -> None:
        self._checkpoint = OffsetCheckpoint(files, f"{directory}/{CLEANER_OFFSET}")
        self._offsets: dict[Key, int] = {}
        self._is_unreadable = False
        self._on_disk: set[Key] = set()  #: logs that may be in the file
        self._lock = Lock()  #: one writer at a time, and none after `close`
        self._is_closed = False

    def load(self) -> None:
        """Read the file. If it is corrupt, log a warning and compact every log from its start."""
        try:
            self._offsets = self._checkpoint.read()
        except CorruptLogError as error:
            _LOG.warning("%s; every log is compacted from its start", error)
            self._is_unreadable = True
        self._on_disk = {*self._offsets}

    def was_compacted(self, key: Key) -> bool:
        """Whether a log was ever compacted, or may have been: offsets may be missing in it, even if its policy has changed."""
        return self._is_unreadable or key in self._offsets

    def first_dirty_offset(self, key: Key, log_start_offset: int, log_end_offset: int) -> int:
        """Where compaction continues: at the log start if there is no valid offset (LogCleanerManager.cleanableOffsets)."""
        offset = self._offsets.get(key, log_start_offset)
        return offset if log_start_offset <= offset <= log_end_offset else log_start_offset

    def check(self, key: Key, log_end_offset: int) -> None:
        """Reset the offset of an opened log if its end is below it: the log lost its end, and may grow beyond the offset again."""
        if self._offsets.get(key, 0) > log_end_offset:
            self._offsets[key] = 0

    def announce(self, key: Key, log_start_offset: int) -> bool:
        """Enter a log that will be compacted. Return whether the file has it: it must before records are removed (`was_compacted`)."""
        self._offsets.setdefault(key, log_start_offset)
        return key in self._on_disk

    def advance(self, key: Key, offset: int) -> None:
        """Record that a log is compacted up to `offset`. `write` writes the file."""
        self._offsets[key] = offset

    def forget(self, key: Key) -> None:
        """Remove the entry of an earlier log, from the file as well, because a new log gets its name. May raise OSError."""
        self._offsets.pop(key, None)
        if key in self._on_disk or self._lock.locked():  # a worker may be writing the earlier entry
            self.write()

    def remove(self, key: Key) -> None:
        """Remove a deleted log. The file may keep it until a new log gets its name."""
        self._offsets.pop(key, None)

    def settle(self, known: Container[Key]) -> None:
        """Remove all logs that are not `known`."""
        for key in [key for key in self._offsets if key not in known]:
            del self._offsets[key]

    def write(self) -> None:
        """Replace the file. May raise OSError."""
        with self._lock:
            if self._is_closed:
                return
            offsets = dict(self._offsets)
            self._checkpoint.write(offsets)
            self._on_disk = {*offsets}

    def close(self, *, wait: bool) -> None:
        """Write no more: the directory is released, or failed. In a failed one a write may hang, so do not wait for it."""
        self._is_closed = True
        if wait:
            with self._lock:
                pass
