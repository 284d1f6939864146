"""Replace segments by compacted ones, and at a start finish or undo what a crash interrupted.

    1  N.log.cleaned, N.index.cleaned, ...    are written and synced; the log is unchanged
    2  .cleaned -> .swap                      the `.log` first. A crash in between undoes the segment: while any file of base offset N or
                                              below is `.cleaned`, files that are `.swap` at N or above do not count
    3  old segments -> .deleted               from here on a start finishes the swap: segments within the new `.log` are removed
    4  .swap -> the plain names               the `.log` first; when that is done a start only renames what is left
    5  .deleted files are removed             after file.delete.delay.ms, or by the next start

Several segments are swapped one after the other, in offset order, each through 2 to 4. Apache Kafka does the same
(LocalLog.replaceSegments, LogLoader), so that each finishes an interrupted swap of the other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from minibroker.log.cleaned_segment import Group
from minibroker.log.deletion import remove_files
from minibroker.log.log_config import LogConfig
from minibroker.log.producer_state import Snapshots
from minibroker.log.segments import Segments
from minibroker.storage.batch_scan import read_headers
from minibroker.storage.files import READ_ONLY, Files
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
from minibroker.storage.segment import Segment

logger = logging.getLogger(__name__)

_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)


def swap_all(files: Files, segments: Segments, snapshots: Snapshots, groups: Sequence[Group] | None, config: LogConfig) -> list[str] | None:
    """Swap in all groups that a compaction wrote, and return the files to remove later.

    Returns None if the groups cannot be used any more (or are None), and removes their files. After an OSError only a start can find out
    which files are there.
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
        segment.transaction_index.believe()
        segments.replace(replaced, segment)
        for old in replaced:
            if old.base_offset != group.base_offset:
                snapshots.remove(old.base_offset)
    return paths


def matching(segments: Segments, groups: Sequence[Group]) -> list[tuple[Group, list[Segment]]] | None:
    """Return the segments that each group replaces; None if one of them has changed since.

    Segments at the log start may have been deleted meanwhile, even all of a group. The others of a group are still replaced: records of
    deleted segments in the new segment lie below the log start.
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
    """Do steps 2 to 4 for one new segment, and return the files to remove later. After an OSError the next start finishes or undoes it."""
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
    """At a start: remove deleted files, finish or undo swaps, and return the remaining names."""
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
    """Remove the segments whose base offset lies within the new `.log`."""
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
