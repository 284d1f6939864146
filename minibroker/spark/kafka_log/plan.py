"""Plan which parts of files tasks read: the segments that can hold wanted offsets, large ones cut between batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile
from minibroker.spark.kafka_log.frames import SEEN_INTERVAL_BYTES
from minibroker.spark.kafka_log.options import EARLIEST, LATEST, Bound, LogRange, LogSlice, ReadOptions
from minibroker.spark.kafka_log.transactions import aborted_ranges, last_stable_offset
from minibroker.storage.files import Files


class OffsetRange(NamedTuple):
    """Offsets of a partition: start_offset <= offset < end_offset."""

    folder: PartitionFolder
    start_offset: int
    end_offset: int


def plan(files: Files, options: ReadOptions) -> list[LogRange]:
    """Return what a batch reads, a LogRange per task. OptionError, CorruptLogError."""
    folders = open_folders(files, options)
    return plan_ranges(resolve(folders, options), options)


def resolve(folders: Iterable[PartitionFolder], options: ReadOptions) -> list[OffsetRange]:
    """Return the offsets asked for; OptionError if some do not exist, unless failOnDataLoss=false."""
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
    """Return the end of the log for readers of this isolation level."""
    return last_stable_offset(folder) if options.is_committed else folder.end.offset


def start_offset(folder: PartitionFolder, bound: Bound, latest: int, options: ReadOptions) -> int:
    """Return the first offset to read."""
    number = _number(folder, bound)
    if not bound.is_timestamp:
        return {EARLIEST: folder.log_start_offset, LATEST: latest}.get(number, number)
    found = folder.offset_for_timestamp(number, latest)
    if found is None:
        if not options.latest_when_no_timestamp:
            raise OptionError(
                f"no record of {folder} is at or after {number}: set startingOffsetsByTimestampStrategy=latest to skip the partition"
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
    """Raise OptionError unless offsets are given for all partitions, as Spark's Kafka source does."""
    if bound.by_partition is None:
        return
    there = {(folder.topic, folder.partition) for folder in folders}
    given = set(bound.by_partition)
    if there != given:
        one = min(there ^ given)
        if one in there:
            raise OptionError(f"{name} has no offset for partition {one[1]} of {one[0]}")
        raise OptionError(f"{name} names partition {one[1]} of {one[0]}, which is not read")


def check_range(folder: PartitionFolder, start: int, end: int, latest: int, options: ReadOptions) -> tuple[int, int]:
    """Return the part of [start, end) that exists; OptionError if that is less, unless failOnDataLoss=false."""
    if options.fail_on_data_loss:
        wrong = next((each for each in (start, end) if not folder.log_start_offset <= each <= latest), None)
        if wrong is not None:
            raise OptionError(
                f"offset {wrong} of {folder} does not exist: it has {folder.log_start_offset} up to {latest}; "
                "failOnDataLoss=false reads what exists"
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
    """Yield the part of each segment that may hold wanted offsets."""
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
    """Yield tasks: slices up to `target` bytes; large slices are cut."""
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
    """Yield parts of about `target` bytes that start at batches."""
    position = whole.start_position
    if whole.size > target:
        count = -(-whole.size // target)  # of equal size, so that the last one is not small
        for cut in _cuts(whole, segment, -(-whole.size // count)):
            yield LogSlice(whole.path, position, cut)
            position = cut
    yield LogSlice(whole.path, position, whole.end_position)


def _cuts(whole: LogSlice, segment: SegmentFile, target: int) -> Iterator[int]:
    """Yield positions to cut at: from the offset index and the batches seen after it, else from the batch headers."""
    position = whole.start_position
    for entry in (*segment.index.entries(), *(segment.seen if target >= SEEN_INTERVAL_BYTES else ())):
        if entry.position - position >= target and entry.position < whole.end_position and segment.batch_of(entry) is not None:
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
        return  # the task that reads it reports the damage
