"""From options to the parts of files that tasks read: only segments that can hold what was asked for, large ones cut at batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.spark.errors import OptionError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile
from minibroker.spark.kafka_log.frames import SEEN_INTERVAL_BYTES
from minibroker.spark.kafka_log.options import EARLIEST, LATEST, Bound, ReadOptions
from minibroker.spark.kafka_log.ranges import LogRange, LogSlice
from minibroker.spark.kafka_log.transactions import aborted_ranges, last_stable_offset
from minibroker.storage.files import Files


class OffsetRange(NamedTuple):
    """Offsets of a partition: start_offset <= offset < end_offset."""

    folder: PartitionFolder
    start_offset: int
    end_offset: int


def plan(files: Files, options: ReadOptions) -> list[LogRange]:
    """What a batch reads, a LogRange for each task. OptionError, CorruptLogError."""
    folders = open_folders(files, options)
    return plan_ranges(resolve(folders, options), options)


def resolve(folders: Iterable[PartitionFolder], options: ReadOptions) -> list[OffsetRange]:
    """The offsets that are asked for; OptionError when they are not there and that was not allowed."""
    found = []
    folders = list(folders)
    check_coverage(folders, options.start, "startingOffsets")
    check_coverage(folders, options.end, "endingOffsets")
    for folder in folders:
        latest = latest_offset(folder, options)
        start = start_offset(folder, options.start, latest, options)
        end = _end_offset(folder, options.end, latest)
        start, end = check_range(folder, start, end, latest, options)
        found.append(OffsetRange(folder, start, end))
    return found


def latest_offset(folder: PartitionFolder, options: ReadOptions) -> int:
    """Where readers of this isolation level end."""
    return last_stable_offset(folder) if options.is_committed else folder.end.offset


def start_offset(folder: PartitionFolder, bound: Bound, latest: int, options: ReadOptions) -> int:
    """The first offset to read."""
    number = _number(folder, bound)
    if not bound.is_timestamp:
        return {EARLIEST: folder.log_start_offset, LATEST: latest}.get(number, number)
    found = folder.offset_for_timestamp(number, latest)
    if found is None:
        if not options.latest_when_no_timestamp:
            raise OptionError(
                f"no record of {folder} is as late as {number}: set startingOffsetsByTimestampStrategy=latest to pass over it"
            )
        return latest
    return found


def _end_offset(folder: PartitionFolder, bound: Bound, latest: int) -> int:
    number = _number(folder, bound)
    if not bound.is_timestamp:
        return {EARLIEST: folder.log_start_offset, LATEST: latest}.get(number, number)
    found = folder.offset_for_timestamp(number, latest)
    return latest if found is None else found


def _number(folder: PartitionFolder, bound: Bound) -> int:
    if bound.everywhere is not None:
        return bound.everywhere
    assert bound.by_partition is not None  # noqa: S101  a Bound has one or the other
    return bound.by_partition[folder.topic, folder.partition]


def check_coverage(folders: Iterable[PartitionFolder], bound: Bound, name: str) -> None:
    """As the Kafka source: offsets by partition are given for all of them, or it was a mistake."""
    if bound.by_partition is None:
        return
    there = {(folder.topic, folder.partition) for folder in folders}
    given = set(bound.by_partition)
    if there != given:
        one = min(there ^ given)
        what = "says nothing of" if one in there else "names"
        why = "" if one in there else ", which is not read"
        raise OptionError(f"{name} {what} partition {one[1]} of {one[0]}{why}")


def check_range(folder: PartitionFolder, start: int, end: int, latest: int, options: ReadOptions) -> tuple[int, int]:
    """The part of [start, end) that is there; OptionError when that is less and failOnDataLoss was not switched off."""
    if options.fail_on_data_loss:
        wrong = next((each for each in (start, end) if not folder.log_start_offset <= each <= latest), None)
        if wrong is not None:
            raise OptionError(
                f"offset {wrong} of {folder} is not there: it has {folder.log_start_offset} up to {latest}; "
                "failOnDataLoss=false reads what there is"
            )
    start = max(start, folder.log_start_offset)
    end = min(end, latest)
    return min(start, end), end


def plan_ranges(ranges: Iterable[OffsetRange], options: ReadOptions) -> list[LogRange]:
    """Cut offset ranges into parts of files."""
    wanted = [(each, list(_slices(each))) for each in ranges if each.start_offset < each.end_offset]
    total = sum(part.size for _, slices in wanted for part, _ in slices)
    target = max(options.max_partition_bytes, 1)
    if options.min_partitions:
        target = max(min(target, total // options.min_partitions), 1)
    return [found for each, slices in wanted for found in _runs(each, slices, target, options)]


def _slices(wanted: OffsetRange) -> Iterator[tuple[LogSlice, SegmentFile]]:
    """The part of each segment that may hold wanted offsets."""
    folder, start, end = wanted
    segments = folder.segments_from(start)
    for number, segment in enumerate(segments):
        if segment.base_offset >= end:
            return
        start_position = segment.start_for(start) if start > segment.base_offset else 0
        end_position = folder.end_of(segment)
        is_last = number + 1 == len(segments) or segments[number + 1].base_offset >= end
        if is_last:
            end_position = segment.stop_for(end, end_position)
        if start_position < end_position:
            yield LogSlice(segment.path, start_position, end_position), segment


def _runs(wanted: OffsetRange, slices: Iterable[tuple[LogSlice, SegmentFile]], target: int, options: ReadOptions) -> Iterator[LogRange]:
    """Slices one after the other until a task has enough; large ones are cut."""
    aborted = aborted_ranges(wanted.folder, wanted.start_offset, wanted.end_offset) if options.is_committed else ()
    run: list[LogSlice] = []
    size = 0
    for whole, segment in slices:
        for part in _cut(whole, segment, target):
            if run and size + part.size > target:
                yield LogRange(wanted.folder.topic, wanted.folder.partition, wanted.start_offset, wanted.end_offset, tuple(run), aborted)
                run, size = [], 0
            run.append(part)
            size += part.size
    if run:
        yield LogRange(wanted.folder.topic, wanted.folder.partition, wanted.start_offset, wanted.end_offset, tuple(run), aborted)


def _cut(whole: LogSlice, segment: SegmentFile, target: int) -> Iterator[LogSlice]:
    """Parts of about `target` bytes that begin where batches do."""
    position = whole.start_position
    if whole.size > target:
        count = -(-whole.size // target)  # of one size, so that no task is left over at the end
        for cut in _cuts(whole, segment, -(-whole.size // count)):
            yield LogSlice(whole.path, position, cut)
            position = cut
    yield LogSlice(whole.path, position, whole.end_position)


def _cuts(whole: LogSlice, segment: SegmentFile, target: int) -> Iterator[int]:
    """By the offset index and what was seen of batches behind it; where neither says anything, by a walk over the headers."""
    position = whole.start_position
    for entry in (*segment.index.entries(), *(segment.seen if target >= SEEN_INTERVAL_BYTES else ())):
        if (
            entry.position - position >= target
            and entry.position < whole.end_position
            and segment.is_batch_at(entry.position, entry.offset)
        ):
            position = entry.position
            yield position
    if whole.end_position - position < 2 * target:
        return
    begin = position
    try:
        for header in segment.headers(position, whole.end_position):
            if header.position - begin >= target:
                begin = header.position
                yield begin
    except CorruptMessage:
        return  # the task that reads it says so
