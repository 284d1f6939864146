"""A copy of a log in another folder, which follows the log until it replaces it.

    1  closed segments and the current bytes of the active one are copied in pieces, on other threads; `next_piece` returns the next one
    2  when little is missing, the log rolls, so the active segment and its indexes are small
    3  `finish`, on the owner's thread: the rest of the active segment, the leader epochs; everything is synced
    4  the folder is renamed, and `PartitionLog.move` continues in it

Between 3 and 4 nothing may be appended. Invariant: a segment counts as copied once its `.log` and its other files are synced.
Retention may delete segments meanwhile: `finish` removes their copies. A log must not be compacted while it is copied.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from minibroker.log.partition_log import PartitionLog
from minibroker.storage.directory_files import PARTITION_METADATA, write_topic_id
from minibroker.storage.files import APPEND, READ_ONLY, REPLACE, Files, read_all, write_all
from minibroker.storage.log_file_names import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, file_name

CHUNK: Final = 1 << 20  #: bytes that are read at one time
REST_MAX: Final = 1 << 18  #: bytes of the active segment that `finish` copies at most
ROLL_SIZE: Final = 1 << 24  #: an active segment of more bytes rolls first: `finish` copies its indexes as well
_BESIDE: Final = (OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)


class Piece(NamedTuple):
    """A range of bytes of one segment to copy."""

    base_offset: int
    position: int
    size: int
    is_last: bool  #: the other files of the segment are copied with it


class LogCopy:
    """The copy of a log in `folder`. The functions from `work` run on other threads, one at a time; everything else on the owner's."""

    def __init__(self, log: PartitionLog, files: Files, folder: str) -> None:
        self.log = log
        self.folder = folder
        self._files = files
        self._sizes: dict[int, int] = {}  #: by base offset: bytes of the `.log` that were copied
        self._whole: set[int] = set()  #: base offsets of segments that are copied with all their files
        self._copied_to = 0  #: the first offset of the first segment that may not be whole

    @property
    def size(self) -> int:
        """The number of copied bytes."""
        return sum(self._sizes.values())

    @property
    def end_offset(self) -> int:
        """The base offset of the first segment that is not copied; all records below it are."""
        for segment in self.log.segments.from_offset(self._copied_to):
            if self._sizes.get(segment.base_offset, 0) < segment.size:
                return segment.base_offset
        return self.log.log_end_offset

    def create(self, topic_id: UUID) -> None:
        """Create the folder. Raises OSError."""
        self._files.make_directory(self.folder)
        write_topic_id(self._files, f"{self.folder}/{PARTITION_METADATA}", topic_id)

    def sync_folder(self) -> None:
        """Sync the folder, on another thread. Raises OSError."""
        descriptor = self._files.handles.open_path(f"{self.folder}/{PARTITION_METADATA}", READ_ONLY)
        try:
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)
        self._files.sync_directory(self.folder)
        self._files.sync_directory(self.folder.rpartition("/")[0])

    def next_piece(self, max_size: int) -> Piece | None:
        """Return the next piece; None if only the part for `finish` is left. The log may roll. Raises OSError, KafkaStorageError."""
        active = self.log.segments.active
        for segment in self.log.segments.from_offset(self._copied_to):
            copied = self._sizes.get(segment.base_offset, 0)
            size = min(segment.size - copied, max_size)
            if segment is active:
                return Piece(segment.base_offset, copied, size, is_last=False) if segment.size - copied > REST_MAX else self._after_roll()
            self._copied_to = segment.base_offset
            if segment.base_offset not in self._whole:
                segment.save_indexes()
                return Piece(segment.base_offset, copied, size, is_last=copied + size == segment.size)
        return None

    def _after_roll(self) -> Piece | None:
        """Roll if the active segment, of which only the end is missing, is large."""
        if self.log.segments.active.size <= ROLL_SIZE:
            return None
        self.log.roll()
        return self.next_piece(CHUNK)

    def work(self, piece: Piece) -> Callable[[], None]:
        """Return a function that copies a piece, for another thread. It raises FileNotFoundError if retention has deleted the segment."""
        return partial(_copy, self._files, self.log.directory, self.folder, piece)

    def note(self, piece: Piece) -> None:
        """Note that a piece was copied."""
        self._sizes[piece.base_offset] = piece.position + piece.size
        if piece.is_last:
            self._whole.add(piece.base_offset)

    def forget(self, piece: Piece) -> None:
        """Note that the segment of a piece was deleted: `finish` removes its copy."""
        self._sizes.setdefault(piece.base_offset, 0)

    def finish(self) -> None:
        """Copy and sync the rest, after `next_piece` returned None. Raises OSError."""
        log, files = self.log, self._files
        active = log.segments.active
        active.save_indexes()
        copied = self._sizes.get(active.base_offset, 0)
        _copy(files, log.directory, self.folder, Piece(active.base_offset, copied, active.size - copied, is_last=True))
        self.note(Piece(active.base_offset, copied, active.size - copied, is_last=True))
        self._copy_state()
        self._remove_others({segment.base_offset for segment in log.segments})
        files.sync_directory(self.folder)

    def _copy_state(self) -> None:
        """Copy the leader epochs, and the producer snapshots that were not copied with a segment."""
        self.log.epochs.write_to(self.folder)
        snapshots = self.log.snapshots
        for offset in snapshots.offsets:
            if offset not in self._whole:
                path = snapshots.path(offset)
                with contextlib.suppress(FileNotFoundError):
                    _copy_file(self._files, path, self.folder + path[len(self.log.directory) :])

    def _remove_others(self, base_offsets: set[int]) -> None:
        """Remove copies of files that retention has deleted meanwhile."""
        for base_offset in self._sizes.keys() - base_offsets:
            for suffix in (LOG, *_BESIDE):
                self._files.remove(f"{self.folder}/{file_name(base_offset, suffix)}")
        for base_offset in self._whole.difference(self.log.snapshots.offsets):
            self._files.remove(f"{self.folder}/{file_name(base_offset, SNAPSHOT)}")


def _copy(files: Files, source: str, target: str, piece: Piece) -> None:
    _copy_bytes(files, f"{source}/{file_name(piece.base_offset, LOG)}", f"{target}/{file_name(piece.base_offset, LOG)}", piece)
    for suffix in _BESIDE if piece.is_last else ():
        name = file_name(piece.base_offset, suffix)
        with contextlib.suppress(FileNotFoundError):  # most segments have no .txnindex
            _copy_file(files, f"{source}/{name}", f"{target}/{name}")


def _copy_bytes(files: Files, source: str, target: str, piece: Piece) -> None:
    reader = files.handles.open_path(source, READ_ONLY)
    try:
        writer = files.handles.open_path(target, APPEND)
        try:
            files.truncate(writer, piece.position)
            position, end = piece.position, piece.position + piece.size
            while position < end:
                data = files.read_at(reader, min(CHUNK, end - position), position)
                if not data:
                    raise FileNotFoundError(f"{source} is shorter than it was")
                write_all(files, writer, data)
                position += len(data)
            files.sync(writer)
        finally:
            files.close(writer)
    finally:
        files.close(reader)


def _copy_file(files: Files, source: str, target: str) -> None:
    """Copy a file and sync it. Raises FileNotFoundError."""
    data = read_all(files, source)
    writer = files.handles.open_path(target, REPLACE)
    try:
        write_all(files, writer, data)
        files.sync(writer)
    finally:
        files.close(writer)
