"""From positions to ranges: what was asked for against what there is. An offset that is not there is an error that says what there is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from minibroker.client.leaders import TopicPartition
from minibroker.spark.errors import SourceError
from minibroker.spark.sources.positions import EARLIEST_OFFSET, LATEST_OFFSET, Position
from minibroker.spark.sources.ranges import PartitionRange


class Bounds(NamedTuple):
    """What a reader can have of a partition: start_offset <= offset < end_offset."""

    start_offset: int
    end_offset: int


#: The first offset as late as a time (epoch ms) of each partition; a partition without such a record may be left out.
FindByTime = Callable[[Collection[TopicPartition], int], Mapping[TopicPartition, int]]


def resolve_ranges(
    bounds: Mapping[TopicPartition, Bounds], starting: Position, ending: Position, find: FindByTime
) -> tuple[PartitionRange, ...]:
    """A range for each partition, sorted.

    Args:
        bounds: of every partition that is to be read.
        starting: the first offset, inclusive.
        ending: exclusive.
        find: looks up times.

    Raises:
        SourceError: an offset that is not there, an end before its start, offsets for some of the partitions only.
    """
    starts = _offsets(bounds, starting, find, "start")
    ends = _offsets(bounds, ending, find, "end")
    found = []
    for key in sorted(bounds):
        there, start, end = bounds[key], starts[key], ends[key]
        for offset in (start, end):
            if not there.start_offset <= offset <= there.end_offset:
                raise SourceError(f"{key[0]}-{key[1]} has no offset {offset}: it has {_told(there)}{_why(offset, there)}")
        if end < start:
            raise SourceError(f"{key[0]}-{key[1]} is to end at offset {end}, before it starts at {start}")
        found.append(PartitionRange(*key, start, end))
    return tuple(found)


def _told(there: Bounds) -> str:
    if there.start_offset == there.end_offset:
        return f"no record, and its next offset is {there.end_offset}"
    return f"{there.start_offset} up to, but not including, {there.end_offset}"


def _why(offset: int, there: Bounds) -> str:
    if offset < there.start_offset:
        return " (older ones were deleted)"
    return " (what is behind an open transaction is not there yet for read_committed)"


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
            raise SourceError(f"the {side} is given neither as offsets nor as a time")
        found[key] = {EARLIEST_OFFSET: there.start_offset, LATEST_OFFSET: there.end_offset}.get(number, number)
    return found


def _check_coverage(there: Collection[TopicPartition], given: Collection[TopicPartition], side: str) -> None:
    """As Spark's Kafka source: offsets are given for all partitions, or it was a mistake."""
    unknown = sorted(set(given) - set(there))
    if unknown:
        raise SourceError(f"the {side} names {unknown[0][0]}-{unknown[0][1]}, which is not read: there is no such partition, or topic")
    missing = sorted(set(there) - set(given))
    if missing:
        raise SourceError(f"the {side} says nothing of {missing[0][0]}-{missing[0][1]}: give -2 (earliest), -1 (latest) or an offset")


def topics_matching(pattern: str, names: Collection[str]) -> list[str]:
    """Those whose whole name matches, sorted; SourceError for a pattern that is none, or matches nothing."""
    try:
        found = sorted(name for name in names if re.fullmatch(pattern, name))
    except re.error as error:
        raise SourceError(f"the pattern {pattern!r} is no regular expression: {error}") from None
    if not found:
        raise SourceError(f"the pattern {pattern!r} matches none of {len(names)} topics")
    return found
