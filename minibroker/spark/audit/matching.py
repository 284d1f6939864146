"""Match records by offset, or by order: the n-th record of a partition on one side with the n-th on the other.

By offset, the first difference is searched in the first range that differs, which is read again.

By order, records are numbered without a window over a whole partition. Offsets are cut into chunks, and each chunk is
sorted separately. A record's number is its number in its chunk plus the counts of the chunks before. Only the
chunk, the offset and the digest are sorted (16 bytes per record plus the chunk). A side is read once; Spark
keeps the sorted data in memory or on executors' disks until the audit is done.

A first difference is classified (missing, duplicate, changed) by the digests of the records around it: if one
side agrees with the other again after a shift by a few records, that many records were lost or added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it  # noqa: N812  as in PySpark's own documentation

from minibroker.spark.audit.comparing import BUCKET, DIGEST, PARTITION, POSITION, PartitionFigures, bucket_of, compare
from minibroker.spark.audit.extents import Extent, Key, Ranges
from minibroker.spark.audit.reading import FirstDifference, SideReader
from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, LEFT, MISSING_LEFT, MISSING_RIGHT, RIGHT
from minibroker.spark.sources.ranges import PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CHUNK = "chunk"  #: the number of a chunk, which has as many offsets as a range has records
OFFSETS_A_TASK = 1_000_000  #: per sorting task
Place = tuple[int, int]  #: offset and digest
CONTEXT = 64  #: records that are compared before a first difference, and from it on
ENOUGH = 16  #: if this many records agree again, or all up to the end, it is not a coincidence


class ByOffset:
    """The comparison of two sides by offset; range number n has the offsets from n * size on."""

    def __init__(self, left: SideReader, right: SideReader, extents: Mapping[Key, Extent], size: int) -> None:
        self._left = left
        self._right = right
        self._extents = extents
        self._size = size

    def buckets(self) -> DataFrame:
        """Return a row for each range of offsets that has records; see `compare`."""
        bucket = bucket_of("offset", self._size)
        left, right = self._digests(self._extents)
        return compare(left.withColumn(BUCKET, bucket), right.withColumn(BUCKET, bucket), [*PARTITION, BUCKET])

    def first_differences(self, figures: Mapping[Key, PartitionFigures], buckets: DataFrame) -> list[FirstDifference]:  # noqa: ARG002  ByOrder needs them
        """Return the first difference of each partition, within its first range that differs."""
        extents = {key: self._within(key, each.first_different) for key, each in figures.items()}
        left, right = self._digests(extents)
        offsets = compare(left.withColumn(POSITION, F.col("offset")), right.withColumn(POSITION, F.col("offset")), [*PARTITION, POSITION])
        first = F.min(F.struct(POSITION, "left_count", "right_count")).alias("first")
        rows = offsets.where("is_different").groupBy(*PARTITION).agg(first, F.count(F.lit(1)).alias("count")).collect()
        return [_found((row["topic"], row["partition"]), row["first"], row["count"]) for row in rows]

    def close(self) -> None:
        """Do nothing: only ByOrder keeps data."""

    def _digests(self, extents: Mapping[Key, Extent]) -> tuple[DataFrame, DataFrame]:
        lefts = [each for extent in extents.values() for each in extent.left or ()]
        rights = [each for extent in extents.values() for each in extent.right or ()]
        return self._left.digests(lefts), self._right.digests(rights)

    def _within(self, key: Key, bucket: int) -> Extent:
        extent = self._extents[key]
        return Extent(self._clipped(extent.left, bucket), self._clipped(extent.right, bucket))

    def _clipped(self, there: Ranges | None, bucket: int) -> Ranges | None:
        start, end = bucket * self._size, (bucket + 1) * self._size
        found = [each._replace(start_offset=max(each.start_offset, start), end_offset=min(each.end_offset, end)) for each in there or ()]
        return tuple(each for each in found if each.size > 0)


def _found(key: Key, first: Sequence[int], count: int) -> FirstDifference:
    offset, left_count, right_count = first
    if left_count == right_count:
        kind = CHANGED
    elif left_count > right_count:
        kind = DUPLICATE_LEFT if right_count else MISSING_RIGHT
    else:
        kind = DUPLICATE_RIGHT if left_count else MISSING_LEFT
    return FirstDifference(
        *key, kind, position=offset, count=count, left_offset=offset if left_count else None, right_offset=offset if right_count else None
    )


class Stretch(NamedTuple):
    """Records with numbers first <= number < end of a partition, and their chunks on one side, last_chunk included."""

    topic: str
    partition: int
    first: int
    end: int
    first_chunk: int
    last_chunk: int


class Neighbourhood(NamedTuple):
    """The records around a first difference on both sides; None: the side has none there."""

    left: Stretch | None
    right: Stretch | None


class ByOrder:
    """The comparison of two sides by order."""

    def __init__(self, left: SideReader, right: SideReader, extents: Mapping[Key, Extent], size: int) -> None:
        self._size = size
        self._more = -(-CONTEXT // size)  #: how many ranges before and after one hold CONTEXT records
        self._left = self._sorted(left, [each for extent in extents.values() for each in extent.left or ()])
        self._right = self._sorted(right, [each for extent in extents.values() for each in extent.right or ()])

    def buckets(self) -> DataFrame:
        """Return a row for each range of numbers; see `compare`. The digests include the numbers."""
        left, right = (
            self._numbered(side).withColumn(BUCKET, bucket_of(POSITION, self._size)).withColumn(DIGEST, F.xxhash64(POSITION, DIGEST))
            for side in (self._left, self._right)
        )
        return compare(left, right, [*PARTITION, BUCKET])

    def first_differences(self, figures: Mapping[Key, PartitionFigures], buckets: DataFrame) -> list[FirstDifference]:
        """Return the first difference of each partition, classified."""
        near = self._neighbourhoods(figures, buckets)
        left = self._numbered(self._left).where(_any_of(each.left for each in near)).persist(StorageLevel.MEMORY_AND_DISK)
        right = self._numbered(self._right).where(_any_of(each.right for each in near)).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            numbers = compare(left, right, [*PARTITION, POSITION])
            rows = numbers.where("is_different").groupBy(*PARTITION).agg(F.min(POSITION).alias("first")).collect()
            firsts = {(row["topic"], row["partition"]): row["first"] for row in rows}
            places = _places(left, right, firsts)
        finally:
            left.unpersist()
            right.unpersist()
        return [
            _first_difference(key, first, places.get((*key, LEFT), {}), places.get((*key, RIGHT), {}), figures[key])
            for key, first in sorted(firsts.items())
        ]

    def close(self) -> None:
        """Release the sorted data that Spark keeps."""
        self._left.unpersist()
        self._right.unpersist()

    def _sorted(self, reader: SideReader, ranges: Sequence[PartitionRange]) -> DataFrame:
        """Return topic, partition, offset, digest and chunk; each chunk is in one task, and sorted."""
        tasks = max(2, -(-sum(each.size for each in ranges) // OFFSETS_A_TASK))
        chunks = reader.digests(ranges).withColumn(CHUNK, bucket_of("offset", self._size)).repartition(tasks, *PARTITION, CHUNK)
        return chunks.sortWithinPartitions(*PARTITION, CHUNK, "offset", DIGEST).persist(StorageLevel.MEMORY_AND_DISK)

    def _numbered(self, chunks: DataFrame) -> DataFrame:
        """Return topic, partition, chunk, offset, digest and position, the number of each record in its partition from 0."""
        in_chunk = Window.partitionBy(*PARTITION, CHUNK).orderBy("offset", DIGEST)
        before = Window.partitionBy(*PARTITION).orderBy(CHUNK).rowsBetween(Window.unboundedPreceding, -1)  # of chunks, not of records
        counts = chunks.groupBy(*PARTITION, CHUNK).agg(F.count(F.lit(1)).alias("count"))
        starts = counts.select(*PARTITION, CHUNK, F.coalesce(F.sum("count").over(before), F.lit(0)).alias("start"))
        ranked = chunks.withColumn("rank", F.row_number().over(in_chunk) - 1)
        return ranked.join(starts, [*PARTITION, CHUNK]).select(
            *PARTITION, CHUNK, "offset", DIGEST, (F.col("start") + F.col("rank")).alias(POSITION)
        )

    def _neighbourhoods(self, figures: Mapping[Key, PartitionFigures], buckets: DataFrame) -> list[Neighbourhood]:
        """Return the first ranges that differ, with the ranges beside them."""
        more = self._more
        wanted = [
            (F.col("topic") == topic)
            & (F.col("partition") == partition)
            & F.col(BUCKET).between(each.first_different - more, each.first_different + more)
            for (topic, partition), each in figures.items()
        ]
        spans = buckets.where(reduce(lambda one, other: one | other, wanted)).groupBy(*PARTITION)
        rows = spans.agg(
            *(F.min(name).alias(name) for name in ("left_first", "right_first")),
            *(F.max(name).alias(name) for name in ("left_last", "right_last")),
        ).collect()
        found = []
        for row in rows:
            bucket = figures[row["topic"], row["partition"]].first_different
            found.append(Neighbourhood(self._stretch(row, LEFT, bucket), self._stretch(row, RIGHT, bucket)))
        return found

    def _stretch(self, row: Any, side: str, bucket: int) -> Stretch | None:
        first, last = row[f"{side}_first"], row[f"{side}_last"]
        if first is None:
            return None
        start, end = (bucket - self._more) * self._size, (bucket + 1 + self._more) * self._size
        return Stretch(row["topic"], row["partition"], start, end, first // self._size, last // self._size)


def _any_of(stretches: Iterable[Stretch | None]) -> Column:
    """Return the condition that a record is in one of `stretches`. Spark skips other chunks before it numbers records."""
    conditions = [
        (F.col("topic") == each.topic)
        & (F.col("partition") == each.partition)
        & F.col(CHUNK).between(each.first_chunk, each.last_chunk)
        & F.col(POSITION).between(each.first, each.end - 1)
        for each in stretches
        if each is not None
    ]
    return reduce(lambda one, other: one | other, conditions, F.lit(False))


def _places(left: DataFrame, right: DataFrame, firsts: Mapping[Key, int]) -> dict[tuple[str, int, str], dict[int, Place]]:
    """Return by number the offset and digest of at most 2 * CONTEXT records per side around each first difference."""
    conditions = [
        (F.col("topic") == topic) & (F.col("partition") == partition) & F.col(POSITION).between(first - CONTEXT, first + CONTEXT - 1)
        for (topic, partition), first in firsts.items()
    ]
    both = left.withColumn("side", F.lit(LEFT)).unionAll(right.withColumn("side", F.lit(RIGHT)))
    found: dict[tuple[str, int, str], dict[int, Place]] = {}
    for row in both.where(reduce(lambda one, other: one | other, conditions, F.lit(False))).collect():
        found.setdefault((row["topic"], row["partition"], row["side"]), {})[row[POSITION]] = (row["offset"], row[DIGEST])
    return found


def _first_difference(
    key: Key, first: int, left: Mapping[int, Place], right: Mapping[int, Place], figures: PartitionFigures
) -> FirstDifference:
    """Return what happened at number `first`."""
    ones, others = ([places[number][1] for number in sorted(places)] for places in (left, right))
    before = sum(number < first for number in left)  # the same on both sides, which agree below `first`
    change = change_at(ones, others, before)
    count = change.count
    one, other = left.get(first), right.get(first)
    if one is None or other is None:
        count = abs(figures.left_count - figures.right_count)  # the window does not reach the end of the records
    return FirstDifference(
        *key,
        change.kind,
        position=first,
        count=count,
        left_offset=one and one[0],
        right_offset=other and other[0],
        left_digest=one and one[1],
        right_digest=other and other[1],
    )


@dataclass(frozen=True, slots=True)
class Change:
    """The kind of a difference, and how many records in a row it covers."""

    kind: str
    count: int


def change_at(left: Sequence[int], right: Sequence[int], index: int) -> Change:
    """Return what changed at `index`, the first place where both sides differ.

    Args:
        left: digests of records in order: up to CONTEXT before `index`, and CONTEXT from there on, or fewer at the end
            of the side.
        right: the same for the other side, starting with the same record.
        index: the number of leading records that are equal.
    """
    ones, others = left[index:], right[index:]
    if not ones or not others:
        return _more(left, index, len(ones), is_left=True) if ones else _more(right, index, len(others), is_left=False)
    if _agrees(ones[1:], others[1:]):
        return Change(CHANGED, 1)
    for count in range(1, CONTEXT - ENOUGH + 1):
        if _agrees(ones[count:], others):
            return _more(left, index, count, is_left=True)
        if _agrees(ones, others[count:]):
            return _more(right, index, count, is_left=False)
    return Change(CHANGED, 1)


def _agrees(ones: Sequence[int], others: Sequence[int]) -> bool:
    """Return whether both continue alike, for ENOUGH records or up to an end; an ended side agrees only with an ended one."""
    count = min(len(ones), len(others), ENOUGH)
    return ones[:count] == others[:count] if count else len(ones) == len(others)


def _more(digests: Sequence[int], index: int, count: int, *, is_left: bool) -> Change:
    """Return the change of a side that has more records: a repetition, or records that the other side lacks."""
    is_repeated = count <= index and digests[index - count : index] == digests[index : index + count]
    if is_left:
        return Change(DUPLICATE_LEFT if is_repeated else MISSING_RIGHT, count)
    return Change(DUPLICATE_RIGHT if is_repeated else MISSING_LEFT, count)
