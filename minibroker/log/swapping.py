"""Write compacted segments, replace segments by them, and at start finish or undo work that a crash interrupted.

    1  N.log.cleaned, N.index.cleaned, ...    the files and then the folder are synced (CleanedSegment); the log is unchanged
    2  .cleaned -> .swap                      the `.log` first. After a crash in between, the start
    undoes the segment: while any file of base
                                              offset N or below is `.cleaned`, files that are `.swap` at N or above are ignored
    3  old segments -> .deleted               from here on the next start finishes the swap: it removes segments within the new `.log`
    4  .swap -> the plain names               the `.log` first; after that the next start only renames the other files
    5  .deleted files are removed             after file.delete.delay.ms, or by the next start

Several segments are swapped one after the other, in offset order, each through 2 to 4. Apache Kafka does the same
(LocalLog.replaceSegments, LogLoader), so that each finishes an interrupted swap of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.log.deletion import remove_files
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import Snapshots
from minibroker.log.segments import Segments
from minibroker.storage import transaction_index
from minibroker.storage.batch_scan import read_headers
from minibroker.storage.files import READ_ONLY, REPLACE, Files, write_all
from minibroker.storage.indexes import INTERVAL_MAX, NO_TIMESTAMP, OffsetIndex, TimeIndex, TimestampEntry
from minibroker.storage.log_file_names import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    SNAPSHOT,
    SWAP,
    TEMPORARY,
    TIME_INDEX,
    TRANSACTION_INDEX,
    file_name,
    parse_file_name,
)
from minibroker.storage.segment import MAX_RELATIVE_OFFSET, Segment
from minibroker.storage.transaction_index import AbortedTxn

if TYPE_CHECKING:
    from typing_extensions import Buffer

WRITE_BYTES: Final = 1024 * 1024


class Source(NamedTuple):
    """A segment to compact, whose `.log` has `size` bytes."""

    base_offset: int
    size: int


class Group(NamedTuple):
    """Segments that become one segment, whose `.log` has `size` bytes."""

    sources: tuple[Source, ...]
    size: int

    @property
    def base_offset(self) -> int:
        """The base offset of the new segment and of the first source."""
        return self.sources[0].base_offset


class CleanedSegment:
    """A segment that compaction writes as `.cleaned` files; call `finish` or `abandon` at the end.

    The `.log` gets the modification time of the last source, because retention of records without
    timestamps uses it. Index entries follow the rule of storage/segment.py.
    """

    def __init__(self, files: Files, directory: str, base_offset: int, *, index_interval_bytes: int, index_max_bytes: int) -> None:
        self._files = files
        self._directory = directory
        self._base_offset = base_offset
        self._index_interval_bytes = min(index_interval_bytes, INTERVAL_MAX)
        self._offset_index = OffsetIndex(files, self._path(OFFSET_INDEX), base_offset, index_max_bytes, is_new=True)
        self._time_index = TimeIndex(files, self._path(TIME_INDEX), base_offset, index_max_bytes, is_new=True)
        self._largest = TimestampEntry(NO_TIMESTAMP, base_offset)
        self._bytes_since_index_entry = 0
        self._pending = bytearray()  # a copy, because views would keep everything that was read in memory
        self.size = 0
        self._descriptor = files.handles.open_path(self._path(LOG), REPLACE)

    def _path(self, suffix: str) -> str:
        return f"{self._directory}/{file_name(self._base_offset, suffix)}{CLEANED}"

    def append(self, data: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add one batch."""
        if last_offset - self._base_offset > MAX_RELATIVE_OFFSET:
            raise CorruptMessage(f"{self._path(LOG)}: offset {last_offset} is too far from the base offset for an index")
        if max_timestamp > self._largest.timestamp:
            self._largest = TimestampEntry(max_timestamp, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self._offset_index.append(last_offset, self.size)
            self._time_index.maybe_append(*self._largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size
        self.size += size
        self._pending += data
        if len(self._pending) >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        data, self._pending = memoryview(self._pending), bytearray()
        for start in range(0, len(data), WRITE_BYTES):
            write_all(self._files, self._descriptor, data[start : start + WRITE_BYTES])

    def finish(self, modified_ms: int, aborted: Iterable[AbortedTxn]) -> int:
        """Write and sync everything, and return the size of the `.log`."""
        self._write()
        self._files.sync(self._descriptor)
        self.abandon()
        self._files.set_modified_ms(self._path(LOG), modified_ms)
        self._time_index.maybe_append(*self._largest)
        self._write_file(OFFSET_INDEX, self._offset_index.loaded())
        self._write_file(TIME_INDEX, self._time_index.loaded())
        entries = transaction_index.encode(aborted)
        if entries:
            self._write_file(TRANSACTION_INDEX, entries)
        return self.size

    def _write_file(self, suffix: str, data: Buffer) -> None:
        descriptor = self._files.handles.open_path(self._path(suffix), REPLACE)
        try:
            write_all(self._files, descriptor, data)
            self._files.sync(descriptor)
        finally:
            self._files.close(descriptor)

    def abandon(self) -> None:
        """Close the `.log`; does nothing if it is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._files.close(descriptor)


logger = logging.getLogger(__name__)

_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


def swap_all(files: Files, segments: Segments, snapshots: Snapshots, groups: Sequence[Group] | None, config: LogConfig) -> list[str] | None:
    """Swap in all groups that a compaction wrote, and return the files to remove later.

    Returns None if the groups cannot be used any more (or are None), and removes their files. After an OSError, only the next start can
    find out which files exist.
    """
    directory = segments.directory
    matches = None if groups is None else matching(segments, groups)
    if matches is None:
        remove_cleaned(files, directory)
        return None
    paths = []
    for group, replaced in matches:
        if not replaced:
            remove_cleaned(files, directory, [group.base_offset])
            continue
        paths += swap_in(files, directory, group, replaced)
        segment = Segment(
            files,
            directory,
            group.base_offset,
            size=group.size,
            index_interval_bytes=config.index_interval_bytes,
            index_max_bytes=config.segment_index_bytes,
            created_ms=replaced[0].created_ms,
        )
        segment.forget_when_idle()
        segment.transaction_index.trust()
        segments.replace(replaced, segment)
        for old in replaced:
            if old.base_offset != group.base_offset:
                snapshots.remove(old.base_offset)
    return paths


def matching(segments: Segments, groups: Sequence[Group]) -> list[tuple[Group, list[Segment]]] | None:
    """Return the segments that each group replaces; None if one of them has changed since the plan.

    Segments at the log start may have been deleted meanwhile, even all of a group. The others of a group are still replaced: records of
    deleted segments in the new segment are below the log start.
    """
    by_offset = {segment.base_offset: segment for segment in segments if segment is not segments.active}
    first_offset = next(iter(segments)).base_offset
    matches = []
    for group in groups:
        replaced = []
        for source in group.sources:
            segment = by_offset.get(source.base_offset)
            if segment is not None and segment.size == source.size:
                replaced.append(segment)
            elif segment is not None or source.base_offset >= first_offset:
                return None
        matches.append((group, replaced))
    return matches


def swap_in(files: Files, directory: str, group: Group, replaced: Sequence[Segment]) -> list[str]:
    """Do steps 2 to 4 for one new segment, and return the files to remove later. After an OSError, the next start finishes or undoes it."""
    paths = [f"{directory}/{file_name(group.base_offset, suffix)}" for suffix in _SUFFIXES]
    present = [path for path in paths if files.exists(path + CLEANED)]
    for path in present:
        files.rename(path + CLEANED, path + SWAP)
    deleted = [path for segment in replaced for path in segment.mark_deleted()]
    for path in present:
        files.rename(path + SWAP, path)
    return deleted


def remove_replaced(files: Files, directory: str, paths: Sequence[str]) -> None:
    """Do step 5 after syncing the names of the new files. Does nothing if the folder does not exist."""
    try:
        files.sync_directory(directory)
    except FileNotFoundError:
        return
    remove_files(files, paths)


def remove_cleaned(files: Files, directory: str, base_offsets: Iterable[int] | None = None) -> None:
    """Remove the `.cleaned` files of these base offsets, or all. Does nothing if the folder does not exist."""
    try:
        names = files.names(directory)
    except FileNotFoundError:
        return
    expected = None if base_offsets is None else set(base_offsets)
    for name in names:
        if name.endswith(CLEANED) and (expected is None or _base_offset(name) in expected):
            files.remove(f"{directory}/{name}")


def finish_interrupted_work(files: Files, directory: str, names: Iterable[str]) -> set[str]:
    """Remove deleted files, finish or undo swaps, and return the remaining names. Called at start."""
    names = set(names)
    cleaned_from = min((_base_offset(name) for name in names if name.endswith(CLEANED)), default=None)
    swapped = []
    for name in sorted(names):
        if name.endswith(SWAP) and (cleaned_from is None or _base_offset(name) < cleaned_from):
            swapped.append(name)
        elif name.endswith((SWAP, DELETED, TEMPORARY)):
            files.remove(f"{directory}/{name}")
    for name in sorted(names):
        if name.endswith(CLEANED):  # last: as long as one exists, its swap is undone
            files.remove(f"{directory}/{name}")
    for name in swapped:
        if name.endswith(LOG + SWAP):
            _make_room(files, directory, name, names)
    for name in sorted(swapped, key=lambda name: (not name.endswith(LOG + SWAP), name)):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")
        logger.warning("%s/%s: finished an interrupted compaction", directory, name.removesuffix(SWAP))
    return set(files.names(directory))


def _make_room(files: Files, directory: str, name: str, names: Iterable[str]) -> None:
    """Remove the segments whose base offset is within the new `.log`."""
    path = f"{directory}/{name}"
    base_offset = end_offset = _base_offset(name)
    handle = files.handles.handle(path, READ_ONLY)
    try:
        for header in read_headers(files, handle, 0, files.size(path)):
            end_offset = header.last_offset
    finally:
        handle.close()
    for other in names:
        found = parse_file_name(other)
        if found is not None and base_offset <= found[0] <= end_offset and found[1] != SNAPSHOT:
            files.remove(f"{directory}/{other}")


def _base_offset(name: str) -> int:
    """Return the base offset of a segment's file with a suffix after its name; -1 for other files."""
    digits = name[:20]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) == 20 else -1
