"""Plan which parts of files tasks read: the segments that can hold wanted offsets, large ones cut between batches.

A stream plans its batches over files that grow. New partitions of subscribed topics are read from their start. A partition that
is gone, or has lost unread records, is data loss: an error, or skipped with failOnDataLoss=false.

Spark requests the end of the next batch before it passes the end of the last batch to a Python source. The first batch after a
restart is limited only if the source can read the query's checkpoint itself:

    CHECKPOINT/offsets/N    a line of version, a line of metadata, and a line per source: its offsets at the end of batch N
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from minibroker.errors import CorruptMessage
from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.directory import aborted_ranges, last_stable_offset, open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder, SegmentFile
from minibroker.spark.kafka_log.frames import SEEN_INTERVAL_BYTES
from minibroker.spark.kafka_log.options import EARLIEST, LATEST, Bound, LogRange, LogSlice, ReadOptions
from minibroker.storage.files import Files, read_all

logger = logging.getLogger(__name__)
Offsets = dict[str, dict[str, int]]


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
    """Return the requested offsets; OptionError if some do not exist, unless failOnDataLoss=false."""
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
    existing = {(folder.topic, folder.partition) for folder in folders}
    bounded = set(bound.by_partition)
    if existing != bounded:
        one = min(existing ^ bounded)
        if one in existing:
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


class StreamPlanner:
    """Plans one batch after the other; keeps only the end of the last one, for maxOffsetsPerTrigger."""

    def __init__(self, files: Files, options: ReadOptions) -> None:
        self._files = files
        self._options = options
        self._reached: Offsets | None = None
        self._seen: dict[str, PartitionFolder] = {}  #: by path, as last read

    def initial_offsets(self) -> Offsets:
        """Return where a new query starts, from startingOffsets."""
        folders = self._folders()
        check_coverage(folders, self._options.start, "startingOffsets")
        found: Offsets = {}
        for folder in folders:
            latest = latest_offset(folder, self._options)
            start = start_offset(folder, self._options.start, latest, self._options)
            found.setdefault(folder.topic, {})[str(folder.partition)] = max(start, folder.log_start_offset)
        self._reached = found
        return found

    def latest_offsets(self) -> Offsets:
        """Return where the next batch may end: the ends of the logs, or maxOffsetsPerTrigger after the last batch."""
        if self._reached is None and self._options.max_offsets_per_trigger and self._options.checkpoint_location:
            self._reached = last_offsets(self._files, self._options.checkpoint_location, self._options)
        latest: Offsets = {}
        starts: dict[tuple[str, str], int] = {}
        for folder in self._folders():
            name = str(folder.partition)
            latest.setdefault(folder.topic, {})[name] = latest_offset(folder, self._options)
            starts[folder.topic, name] = folder.log_start_offset
        for topic, partitions in (self._reached or {}).items():  # a partition that is gone keeps its offset, and `plan` reports it
            for name, offset in partitions.items():
                latest.setdefault(topic, {}).setdefault(name, offset)
        if self._options.max_offsets_per_trigger and self._reached is not None:
            latest = _bounded(latest, self._reached, starts, self._options.max_offsets_per_trigger)
        return latest

    def plan(self, start: Offsets, end: Offsets) -> list[LogRange]:
        """Return the parts of files with start <= offset < end; OptionError for data loss, unless failOnDataLoss=false."""
        self._reached = end
        folders = {(folder.topic, str(folder.partition)): folder for folder in self._folders()}
        ranges = []
        for topic, partitions in end.items():
            for name, end_offset in partitions.items():
                folder = folders.get((topic, name))
                begin = start.get(topic, {}).get(name)
                if folder is None:
                    if begin != end_offset:
                        self._lost(f"{topic}-{name} is gone")
                    continue
                ranges.append(self._range(folder, folder.log_start_offset if begin is None else begin, end_offset))
        return plan_ranges(ranges, self._options)

    def _range(self, folder: PartitionFolder, start: int, end: int) -> OffsetRange:
        if start < folder.log_start_offset and start < end:
            self._lost(f"{folder} starts at offset {folder.log_start_offset}, but the stream continues at {start}")
        if end > folder.end.offset:
            self._lost(f"{folder} ends at offset {folder.end.offset}, but the stream was at {end}")
        return OffsetRange(folder, max(start, folder.log_start_offset), min(end, folder.end.offset))

    def _lost(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise OptionError(f"{what}: data was lost; failOnDataLoss=false continues without it")

    def _folders(self) -> list[PartitionFolder]:
        folders = open_folders(self._files, self._options)
        for folder in folders:
            if folder.directory in self._seen:
                folder.follow(self._seen[folder.directory])
        for earlier in self._seen.values():
            earlier.close()
        self._seen = {folder.directory: folder for folder in folders}
        return folders


def _bounded(latest: Offsets, reached: Offsets, starts: Mapping[tuple[str, str], int], count: int) -> Offsets:
    """Return ends that limit the batch to `count` offsets: a share per partition by its unread offsets, at least one."""
    begins = {
        (topic, name): max(reached.get(topic, {}).get(name, 0), starts.get((topic, name), 0))
        for topic, partitions in latest.items()
        for name in partitions
    }
    sizes = {key: max(latest[key[0]][key[1]] - begin, 0) for key, begin in begins.items()}
    total = sum(sizes.values())
    if total <= count:
        return latest
    bounded: Offsets = {}
    for (topic, name), begin in begins.items():
        size = sizes[topic, name]
        share = min(max(size * count // total, 1), size)
        bounded.setdefault(topic, {})[name] = begin + share if size else latest[topic][name]
    return bounded


def last_offsets(files: Files, location: str, options: ReadOptions) -> Offsets | None:
    """Return the end of the last planned batch; None if there is none. OptionError for a folder on another file system."""
    path = location.removeprefix("file://").removeprefix("file:").rstrip("/")
    if ":" in path.partition("/")[0]:
        raise OptionError(
            f"checkpointLocation of kafka-log is {location!r}, not a local folder: leave it out, then only the first batch has no limit"
        )
    try:
        batches = [int(name) for name in files.names(f"{path}/offsets") if name.isdecimal()]
    except FileNotFoundError:
        return None
    if not batches:
        return None
    name = f"{path}/offsets/{max(batches)}"
    lines = read_all(files, name).decode().splitlines()
    found = [offsets for line in lines[2:] if (offsets := _offsets(line, options)) is not None]
    if len(found) != 1:
        logger.warning("%s has %d sources like this one: the next batch has no limit", name, len(found))
        return None
    return found[0]


def _offsets(line: str, options: ReadOptions) -> Offsets | None:
    """Return the offsets in a line if they can be those of this source."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(partitions, dict) for partitions in found.values()):
        return None
    numbers = [(topic, name, number) for topic, partitions in found.items() for name, number in partitions.items()]
    if all(name.isdecimal() and isinstance(number, int) and options.wants(topic, int(name)) for topic, name, number in numbers):
        return found
    return None
