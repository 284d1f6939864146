"""Plan the batches of a stream over files that grow.

New partitions of subscribed topics are read from their start. A partition that is gone, or has lost unread
records, is data loss: an error, or skipped with failOnDataLoss=false.

Spark asks a Python source for the end of the next batch before it tells the source where the last batch ended.
So the first batch after a restart is limited only if the source can read the query's checkpoint itself:

    CHECKPOINT/offsets/N    a line of version, a line of metadata, and a line per source: its offsets at the end of batch N
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from minibroker.spark.failures import OptionError
from minibroker.spark.kafka_log.directory import open_folders
from minibroker.spark.kafka_log.folder import PartitionFolder
from minibroker.spark.kafka_log.options import LogRange, ReadOptions
from minibroker.spark.kafka_log.plan import OffsetRange, check_coverage, latest_offset, plan_ranges, start_offset
from minibroker.storage.files import Files, read_all


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
            self._lost(f"{folder} begins at offset {folder.log_start_offset}, the stream continues at {start}")
        if end > folder.end.offset:
            self._lost(f"{folder} ends at offset {folder.end.offset}, the stream was at {end}")
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


logger = logging.getLogger(__name__)

Offsets = dict[str, dict[str, int]]


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
