"""Turn positions into ranges, checked against the offsets that exist. An error says which offsets exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from minibroker.client.routing import TopicPartition
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.positions import EARLIEST_OFFSET, LATEST_OFFSET, Position
from minibroker.spark.sources.ranges import PartitionRange


class Bounds(NamedTuple):
    """The offsets of a partition that a reader can read: start_offset <= offset < end_offset."""

    start_offset: int
    end_offset: int


#: Find the first offset at or after a time (epoch ms) in each partition; a partition without one may be left out.
FindByTime = Callable[[Collection[TopicPartition], int], Mapping[TopicPartition, int]]


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
