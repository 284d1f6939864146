"""Positions: where a pipeline starts or ends, as users write it; and ranges from positions, checked against the existing offsets.

earliest                        the log start offset of each partition
latest                          its end: the last stable offset under read_committed, else the high watermark
{"flights": {"0": 23, "1": -2}} an offset for each partition, as for Spark's Kafka source; -2 is earliest, -1 latest
@2026-11-22T10:00:00Z           the first record at or after this time in each partition, or its end; UTC by default
@1700000000000                  the same in epoch milliseconds
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from minibroker.client.offsets import epoch_ms
from minibroker.client.routing import TopicPartition
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange

EARLIEST_OFFSET = -2
LATEST_OFFSET = -1
#: Find the first offset at or after a time (epoch ms) in each partition; a partition without one may be left out.
FindByTime = Callable[[Collection[TopicPartition], int], Mapping[TopicPartition, int]]


@dataclass(frozen=True, slots=True)
class Position:
    """One of: EARLIEST_OFFSET or LATEST_OFFSET for all partitions, offsets by partition, or a time in epoch ms."""

    everywhere: int | None = None
    by_partition: Mapping[tuple[str, int], int] | None = None
    timestamp_ms: int | None = None

    def __str__(self) -> str:
        """Return the text that parse_position reads."""
        if self.timestamp_ms is not None:
            return f"@{self.timestamp_ms}"
        if self.by_partition is None:
            return "earliest" if self.everywhere == EARLIEST_OFFSET else "latest"
        found: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.by_partition.items()):
            found.setdefault(topic, {})[str(partition)] = offset
        return json.dumps(found)


EARLIEST = Position(everywhere=EARLIEST_OFFSET)

LATEST = Position(everywhere=LATEST_OFFSET)

_NAMED = {"earliest": EARLIEST, "latest": LATEST}


def parse_position(text: str) -> Position:
    """Parse a position; SourceError for an invalid text."""
    stripped = text.strip()
    if stripped.lower() in _NAMED:
        return _NAMED[stripped.lower()]
    if stripped.startswith("@"):
        return Position(timestamp_ms=_epoch_ms(stripped[1:].strip()))
    if stripped.startswith("{"):
        return Position(by_partition=_offsets_by_partition(stripped))
    raise SourceError(
        f'{text!r} is not a position: give earliest, latest, {{"topic": {{"0": 23}}}} (offsets by partition), or @ and a time such as '
        "@2026-11-22T10:00:00Z or @1700000000000"
    )


def as_position(position: Position | str) -> Position:
    """Return a position; parse it if it is a text."""
    return parse_position(position) if isinstance(position, str) else position


def _epoch_ms(text: str) -> int:
    try:
        found = epoch_ms(text)
    except ValueError as error:
        raise SourceError(f"@{text} is not a position: {error}") from None
    if found < 0:
        raise SourceError(f"@{text} is before 1970, and no record is that old")
    return found


def _offsets_by_partition(text: str) -> dict[tuple[str, int], int]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise SourceError(f"{text} is not JSON: {error}") from None
    found = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, dict) or not partitions:
            raise SourceError(f'{text} has no offsets for {topic}: write it like {{"{topic}": {{"0": 23}}}}')
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit()):
                raise SourceError(f"{partition!r} is not a partition number of {topic}")
            if not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST_OFFSET:
                raise SourceError(f"{topic}-{partition} is given {offset!r}: give an offset, -2 (earliest) or -1 (latest)")
            found[topic, int(partition)] = offset
    return found


class Bounds(NamedTuple):
    """The offsets of a partition that a reader can read: start_offset <= offset < end_offset."""

    start_offset: int
    end_offset: int


def resolve_ranges(
    bounds: Mapping[TopicPartition, Bounds], starting: Position, ending: Position, find: FindByTime
) -> tuple[PartitionRange, ...]:
    """Return a range for each partition, sorted.

    Args:
        bounds: of every partition to read.
        starting: the first offset.
        ending: the offset after the last one.
        find: looks up times.

    Raises:
        SourceError: an offset that does not exist, an end before its start, or offsets for only some partitions.
    """
    starts = _offsets(bounds, starting, find, "start")
    ends = _offsets(bounds, ending, find, "end")
    found = []
    for key in sorted(bounds):
        there, start, end = bounds[key], starts[key], ends[key]
        for offset in (start, end):
            if not there.start_offset <= offset <= there.end_offset:
                raise SourceError(f"{key[0]}-{key[1]} has no offset {offset}: it has {_range_text(there)}{_reason(offset, there)}")
        if end < start:
            raise SourceError(f"the range of {key[0]}-{key[1]} ends at offset {end}, before its start at {start}")
        found.append(PartitionRange(*key, start, end))
    return tuple(found)


def _range_text(there: Bounds) -> str:
    if there.start_offset == there.end_offset:
        return f"no record, and its next offset is {there.end_offset}"
    return f"{there.start_offset} up to, but not including, {there.end_offset}"


def _reason(offset: int, there: Bounds) -> str:
    if offset < there.start_offset:
        return " (older ones were deleted)"
    return " (read_committed does not see records after the start of an open transaction)"


def _offsets(bounds: Mapping[TopicPartition, Bounds], position: Position, find: FindByTime, side: str) -> Mapping[TopicPartition, int]:
    if position.timestamp_ms is not None:
        by_time = find(bounds.keys(), position.timestamp_ms)
        return {key: min(by_time.get(key, there.end_offset), there.end_offset) for key, there in bounds.items()}
    given = position.by_partition
    if given is not None:
        _check_coverage(bounds.keys(), given.keys(), side)
    found = {}
    for key, there in bounds.items():
        number = given[key] if given is not None else position.everywhere
        if number is None:
            raise SourceError(f"the {side} has neither offsets nor a time")
        found[key] = {EARLIEST_OFFSET: there.start_offset, LATEST_OFFSET: there.end_offset}.get(number, number)
    return found


def _check_coverage(there: Collection[TopicPartition], given: Collection[TopicPartition], side: str) -> None:
    """Raise SourceError unless offsets are given for all partitions, as Spark's Kafka source does."""
    unknown = sorted(set(given) - set(there))
    if unknown:
        raise SourceError(f"the {side} names {unknown[0][0]}-{unknown[0][1]}, which is not read: there is no such partition or topic")
    missing = sorted(set(there) - set(given))
    if missing:
        raise SourceError(f"the {side} has no offset for {missing[0][0]}-{missing[0][1]}: give -2 (earliest), -1 (latest) or an offset")


def topics_matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return the names that match as a whole, sorted; SourceError for an invalid pattern, or one that matches nothing."""
    try:
        found = sorted(name for name in names if re.fullmatch(pattern, name))
    except re.error as error:
        raise SourceError(f"the pattern {pattern!r} is not a regular expression: {error}") from None
    if not found:
        raise SourceError(f"the pattern {pattern!r} matches none of {len(names)} topics")
    return found
