"""Ranges of offsets that a pipeline reads, the columns of their records, and conditions that select them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import and_, or_
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import Column


COLUMNS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp", "timestampType")

#: the types of COLUMNS, for SparkSession.createDataFrame and DataFrameReader.schema
SCHEMA = (
    "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)


class PartitionRange(NamedTuple):
    """Offsets of a partition: start_offset <= offset < end_offset. Some of them may have no record."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start_offset}, {self.end_offset})"

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True)
class ResolvedTopics:
    """The topics and ranges of a user's request.

    Attributes:
        topic_ids: by topic, in the base64 form of Kafka's tools; "" if unknown (old brokers, old directories,
            plain tables).
        ranges: sorted; empty ranges are included, so that every partition is named.
        cluster_id: "" if unknown.
    """

    topic_ids: Mapping[str, str]
    ranges: tuple[PartitionRange, ...]
    cluster_id: str


def merged(ranges: Iterable[PartitionRange]) -> tuple[PartitionRange, ...]:
    """Return the same offsets in as few ranges as possible, sorted. Join ranges that touch or overlap; drop empty ones."""
    found: list[PartitionRange] = []
    for each in sorted(each for each in ranges if each.size > 0):
        last = found[-1] if found else None
        if last and last[:2] == each[:2] and each.start_offset <= last.end_offset:
            found[-1] = last._replace(end_offset=max(last.end_offset, each.end_offset))
        else:
            found.append(each)
    return tuple(found)


def without(ranges: Iterable[PartitionRange], taken: Iterable[PartitionRange]) -> tuple[PartitionRange, ...]:
    """Return the offsets of `ranges` that are not in `taken`; sorted, in as few ranges as possible."""
    by_partition: dict[tuple[str, int], list[PartitionRange]] = {}
    for each in merged(taken):
        by_partition.setdefault(each[:2], []).append(each)
    found: list[PartitionRange] = []
    for each in merged(ranges):
        start = each.start_offset
        for other in by_partition.get(each[:2], ()):
            if start < other.start_offset:
                found.append(each._replace(start_offset=start, end_offset=min(other.start_offset, each.end_offset)))
            start = max(start, other.end_offset)
        found.append(each._replace(start_offset=start))
    return tuple(each for each in found if each.size > 0)


def common(ranges: Iterable[PartitionRange], others: Iterable[PartitionRange]) -> tuple[PartitionRange, ...]:
    """Return the offsets that are in both; sorted, in as few ranges as possible."""
    ranges = merged(ranges)
    return without(ranges, without(ranges, others))


def layers(ranges: Iterable[PartitionRange]) -> list[list[PartitionRange]]:
    """Group the ranges that have offsets, with at most one range per partition: one load of a source takes no more."""
    found: list[dict[tuple[str, int], PartitionRange]] = []
    for each in sorted(each for each in ranges if each.size > 0):
        layer = next((layer for layer in found if each[:2] not in layer), None)
        if layer is None:
            found.append(layer := {})
        layer[each[:2]] = each
    return [list(layer.values()) for layer in found]


def reading_options(ranges: Iterable[PartitionRange]) -> dict[str, str]:
    """Return the options of Spark's Kafka source and of kafka-log that read these ranges, one per partition."""
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for topic, partition, start_offset, end_offset in ranges:
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start_offset
        ends.setdefault(topic, {})[str(partition)] = end_offset
    return {"assign": json.dumps(assigned), "startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}


def any_of(conditions: Sequence[Column]) -> Column:
    """Return the condition that at least one of `conditions` (at least one) is true.

    The tree is balanced: Spark walks trees by recursion, and a chain of a few hundred conditions overflows its stack.
    """
    return _joined(or_, conditions)


def all_of(conditions: Sequence[Column]) -> Column:
    """Return the condition that all of `conditions` (at least one) are true; a balanced tree, as in any_of."""
    return _joined(and_, conditions)


def _joined(join: Any, conditions: Sequence[Column]) -> Column:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    joined: Column = join(_joined(join, conditions[:middle]), _joined(join, conditions[middle:]))
    return joined
