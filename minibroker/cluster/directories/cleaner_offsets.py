"""How far compaction has come in each log of a log directory: `cleaner-offset-checkpoint`.

The offset of a log is its first dirty one: below it every key has one value, or had when the cleaner was there. An offset that is too low
costs work and does no harm, so a log is there with its start before it is compacted for the first time: a recovery must know that
offsets may be missing in it, whatever its policy is then. One of an earlier topic of the same name would leave records uncompacted for
ever, so it goes, from the disk too, before a new log begins (`forget`).
"""

from __future__ import annotations

import logging
from collections.abc import Container
from threading import Lock

from minibroker.errors import CorruptLogError
from minibroker.storage.files import Files
from minibroker.storage.offset_checkpoint import CLEANER_OFFSET, OffsetCheckpoint

_LOG = logging.getLogger(__name__)

Key = tuple[str, int]  #: topic and partition


class CleanerOffsets:
    """The offsets of one directory. `write` may run in a worker thread, the rest on the owner's."""

    def __init__(self, files: Files, directory: str) -> None:
        self._checkpoint = OffsetCheckpoint(files, f"{directory}/{CLEANER_OFFSET}")
        self._offsets: dict[Key, int] = {}
        self._is_unreadable = False
        self._on_disk: set[Key] = set()  #: logs that the file may speak of
        self._lock = Lock()  #: one writer at a time, and none behind `close`
        self._is_closed = False

    def load(self) -> None:
        """Read the file; one that is none is told of, and every log is compacted from its start."""
        try:
            self._offsets = self._checkpoint.read()
        except CorruptLogError as error:
            _LOG.warning("%s; compaction begins anew", error)
            self._is_unreadable = True
        self._on_disk = {*self._offsets}

    def was_compacted(self, key: Key) -> bool:
        """Whether a log was compacted once, or may have been: then offsets may be missing in it, whatever its policy is now."""
        return self._is_unreadable or key in self._offsets

    def first_dirty_offset(self, key: Key, log_start_offset: int, log_end_offset: int) -> int:
        """Where cleaning goes on: at the log start when nothing is known, or nothing that can be (LogCleanerManager.cleanableOffsets)."""
        offset = self._offsets.get(key, log_start_offset)
        return offset if log_start_offset <= offset <= log_end_offset else log_start_offset

    def check(self, key: Key, log_end_offset: int) -> None:
        """A log was opened. One that lost its end may have grown beyond the offset again when it is asked for; compacted it was."""
        if self._offsets.get(key, 0) > log_end_offset:
            self._offsets[key] = 0

    def announce(self, key: Key, log_start_offset: int) -> bool:
        """A log is about to be compacted; whether the file says so already. It must, before records are gone (`was_compacted`)."""
        self._offsets.setdefault(key, log_start_offset)
        return key in self._on_disk

    def advance(self, key: Key, offset: int) -> None:
        """Compaction has come to `offset`; the file is written by `write`."""
        self._offsets[key] = offset

    def forget(self, key: Key) -> None:
        """A new log begins under this name. OSError when the file cannot be written."""
        self._offsets.pop(key, None)
        if key in self._on_disk or self._lock.locked():  # a worker that is at it may be writing of the earlier one
            self.write()

    def remove(self, key: Key) -> None:
        """The log is deleted; the file may speak of it until there is another of its name."""
        self._offsets.pop(key, None)

    def settle(self, known: Container[Key]) -> None:
        """Only these logs exist."""
        for key in [key for key in self._offsets if key not in known]:
            del self._offsets[key]

    def write(self) -> None:
        """Replace the file; OSError."""
        with self._lock:
            if self._is_closed:
                return
            offsets = dict(self._offsets)
            self._checkpoint.write(offsets)
            self._on_disk = {*offsets}

    def close(self, *, wait: bool) -> None:
        """Write nothing any more: the directory is no longer ours, or cannot be trusted (a write may hang there: do not wait)."""
        self._is_closed = True
        if wait:
            with self._lock:
                pass
