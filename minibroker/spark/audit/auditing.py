"""`audit`: choose what to compare, compute the digests of both sides, describe the differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from pyspark import StorageLevel

from minibroker.spark.audit.comparing import DEFAULT_COLUMNS, PartitionFigures, by_partition, check_columns, first_different
from minibroker.spark.audit.extents import Bounding, Extent, Key, check_common, extents_by_offset, extents_by_order, span
from minibroker.spark.audit.matching import ByOffset, ByOrder
from minibroker.spark.audit.reading import MAX_DETAILED, Side, SideReader, describe, name_of, parse_side, ranges_of
from minibroker.spark.audit.result import AuditResult, Difference, DifferentRange, PartitionAudit
from minibroker.spark.failures import SourceError
from minibroker.spark.progress import phase
from minibroker.spark.sources.positions import EARLIEST, EARLIEST_OFFSET, LATEST, LATEST_OFFSET, Position, as_position
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.spark.sources.table import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET = "offset"
ORDER = "order"
MATCHES = (OFFSET, ORDER)
RANGE_SIZE = 10_000  #: small enough to search for the first difference, large enough that one row each is little
MAX_RANGES = 100  #: listed ranges that differ

NOTHING = PartitionFigures(0, 0, 0, 0, -1)


class Names(NamedTuple):
    """The topics, by name or by a pattern on the left, and their names on the right."""

    topics: tuple[str, ...]
    pattern: str | None
    renames: Mapping[str, str]


class Compared(NamedTuple):
    """The result of the comparison in Spark."""

    figures: Mapping[Key, PartitionFigures]
    different: tuple[DifferentRange, ...]
    differences: Mapping[Key, Difference]


def audit(
    spark: SparkSession,
    left: Side | DataFrame | str,
    right: Side | DataFrame | str,
    *,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    rename: Mapping[str, str] | None = None,
    match: str = OFFSET,
    columns: Iterable[str] = DEFAULT_COLUMNS,
    starting: Position | str = EARLIEST,
    ending: Position | str = LATEST,
    whole: bool = False,
    range_size: int = RANGE_SIZE,
    max_ranges: int = MAX_RANGES,
) -> AuditResult:
    """Compare two sides: counts and digests of ranges, and the first difference of each partition.

    Args:
        spark: the session; records stay on its executors.
        left: a source, a DataFrame with the columns of Spark's Kafka source, or a text for `parse_side`.
        right: the other side, of the same kinds.
        topics: their names on the left. Default: all topics of a table that is one of the sides.
        pattern: topics of the left whose whole names match this regular expression.
        rename: topics' names on the right, by their names on the left.
        match: `offset` compares records of the same offset, `order` the n-th records of a partition.
        columns: the compared columns: key, value, headers, timestamp, timestampType.
        starting: where the left starts. With match=offset the right starts there as well, and records that it lacks
            are differences.
        ending: where the left ends, exclusive; the same rule.
        whole: with match=offset, compare all offsets that either side has. False: those that both have, and list the
            others.
        range_size: offsets (with match=order: records) per digest.
        max_ranges: how many ranges that differ are listed.

    Raises:
        SourceError: no such topic, offsets or columns, or two sides without a common offset.
        ClientError, KafkaError, CorruptLogError: looking up a side failed.
    """
    if match not in MATCHES:
        raise SourceError(f"match must be {' or '.join(MATCHES)}, got {match!r}")
    if range_size < 1:
        raise SourceError(f"range_size must be at least 1, got {range_size}")
    if match == ORDER and whole:
        raise SourceError("whole needs match=offset: match=order always compares all records of both sides")
    sides = _side(left), _side(right)
    chosen = check_columns(columns)
    bounds = as_position(starting), as_position(ending)
    names = Names(tuple(topics), pattern, dict(rename or {}))
    with phase("looking up offsets"):
        ranges = _ranges(spark, sides, names, bounds)
    extents = extents_by_order(*ranges) if match == ORDER else extents_by_offset(*ranges, _bounding(*bounds, whole))
    check_common(extents)
    readers = SideReader(spark, sides[0], chosen, {}), SideReader(spark, sides[1], chosen, names.renames)
    kind = ByOrder if match == ORDER else ByOffset
    with closing(kind(*readers, extents, range_size)) as comparison:
        compared = _compare(comparison, readers, range_size, max_ranges)
    partitions = tuple(_partition(key, extents[key], compared) for key in extents)
    return AuditResult(name_of(sides[0]), name_of(sides[1]), match, chosen, range_size, partitions, compared.different)


def _side(side: Side | DataFrame | str) -> Side:
    if isinstance(side, str):
        return parse_side(side)
    return side if isinstance(side, Side) else TableSource(side)


def _bounding(starting: Position, ending: Position, whole: bool) -> Bounding:
    named = (EARLIEST_OFFSET, LATEST_OFFSET)
    return Bounding(starting.everywhere not in named, ending.everywhere not in named, whole)


def _ranges(
    spark: SparkSession, sides: tuple[Side, Side], names: Names, bounds: tuple[Position, Position]
) -> tuple[tuple[PartitionRange, ...], tuple[PartitionRange, ...]]:
    """Return the ranges of both sides, with topics named as on the left."""
    left, right = sides
    starting, ending = bounds
    left_names = {own: name for name, own in names.renames.items()}
    topics = list(names.topics)
    if not topics and names.pattern is None and not isinstance(left, TableSource) and isinstance(right, TableSource):
        topics = sorted({left_names.get(each.topic, each.topic) for each in ranges_of(spark, right)})
    ones = ranges_of(spark, left, topics, pattern=names.pattern, starting=starting, ending=ending)
    own = [names.renames.get(name, name) for name in dict.fromkeys(each.topic for each in ones)]
    others = ranges_of(spark, right, own)
    return ones, tuple(sorted(each._replace(topic=left_names.get(each.topic, each.topic)) for each in others))


def _compare(comparison: ByOffset | ByOrder, readers: tuple[SideReader, SideReader], size: int, max_ranges: int) -> Compared:
    buckets = comparison.buckets().persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with phase("comparing"):
            figures = by_partition(buckets)
        different = {key: each for key, each in sorted(figures.items()) if each.different_range_count}
        if not different:
            return Compared(figures, (), {})
        with phase("looking for first differences"):
            found = comparison.first_differences({key: different[key] for key in list(different)[:MAX_DETAILED]}, buckets)
            return Compared(figures, first_different(buckets, size, max_ranges), describe(found, *readers))
    finally:
        buckets.unpersist()


def _partition(key: Key, extent: Extent, compared: Compared) -> PartitionAudit:
    left, right = (span(each) if each else (None, None) for each in (extent.left, extent.right))
    figures = compared.figures.get(key, NOTHING)
    return PartitionAudit(
        topic=key[0],
        partition=key[1],
        left_start_offset=left[0],
        left_end_offset=left[1],
        right_start_offset=right[0],
        right_end_offset=right[1],
        left_count=figures.left_count,
        right_count=figures.right_count,
        range_count=figures.range_count,
        different_range_count=figures.different_range_count,
        first_difference=compared.differences.get(key),
        not_compared=extent.not_compared,
    )
