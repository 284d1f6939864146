"""Partners by order: the n-th record of a partition on one side and the n-th on the other, whatever their offsets are.

A number for each record without a window over a whole partition: offsets are cut into chunks, chunks are sorted each by itself, and a
record's number is its number in its chunk and the counts of the chunks before. Only offset and digest are sorted, 16 bytes a record and the
names of its chunk; a side is read once, and what is sorted is kept by Spark (in memory or on executors' disks) until the audit is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from minibroker.spark.audit.comparing import BUCKET, DIGEST, PARTITION, POSITION, PartitionFigures, bucket_of, compare
from minibroker.spark.audit.extents import Extent, Key
from minibroker.spark.audit.reading import Found, SideReader
from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, LEFT, MISSING_LEFT, MISSING_RIGHT, RIGHT
from minibroker.spark.sources.ranges import PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


CHUNK = "chunk"  #: a run of offsets, as many as a range has
OFFSETS_A_TASK = 1_000_000  #: of sorting

Place = tuple[int, int]  #: offset and digest


class Stretch(NamedTuple):
    """Records of a partition by number, first <= number < end, and the chunks that they are in on one side, last_chunk included."""

    topic: str
    partition: int
    first: int
    end: int
    first_chunk: int
    last_chunk: int


class Near(NamedTuple):
    """The neighbourhood of a first difference; None: that side has nothing there."""

    left: Stretch | None
    right: Stretch | None


class ByOrder:
    """The comparison of two sides whose records come in the same order."""

    def __init__(self, left: SideReader, right: SideReader, extents: Mapping[Key, Extent], size: int) -> None:
        self._size = size
        self._more = -(-CONTEXT // size)  #: ranges before and behind one, in which CONTEXT records are
        self._left = self._sorted(left, [each for extent in extents.values() for each in extent.left or ()])
        self._right = self._sorted(right, [each for extent in extents.values() for each in extent.right or ()])

    def buckets(self) -> DataFrame:
        """A row for each range of numbers; see `compare`. The digests cover the numbers."""
        left, right = (
            self._numbered(side).withColumn(BUCKET, bucket_of(POSITION, self._size)).withColumn(DIGEST, F.xxhash64(POSITION, DIGEST))
            for side in (self._left, self._right)
        )
        return compare(left, right, [*PARTITION, BUCKET])

    def first_differences(self, figures: Mapping[Key, PartitionFigures], buckets: DataFrame) -> list[Found]:
        """Where each partition first differs, and what happened there."""
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
            _found(key, first, places.get((*key, LEFT), {}), places.get((*key, RIGHT), {}), figures[key])
            for key, first in sorted(firsts.items())
        ]

    def close(self) -> None:
        """Give up what Spark keeps."""
        self._left.unpersist()
        self._right.unpersist()

    def _sorted(self, reader: SideReader, ranges: Sequence[PartitionRange]) -> DataFrame:
        """topic, partition, offset, digest, chunk; each chunk whole in one task, and sorted."""
        tasks = max(2, -(-sum(each.size for each in ranges) // OFFSETS_A_TASK))
        chunks = reader.digests(ranges).withColumn(CHUNK, bucket_of("offset", self._size)).repartition(tasks, *PARTITION, CHUNK)
        return chunks.sortWithinPartitions(*PARTITION, CHUNK, "offset", DIGEST).persist(StorageLevel.MEMORY_AND_DISK)

    def _numbered(self, chunks: DataFrame) -> DataFrame:
        """topic, partition, chunk, offset, digest, position: the number of each record in its partition, from 0."""
        in_chunk = Window.partitionBy(*PARTITION, CHUNK).orderBy("offset", DIGEST)
        before = Window.partitionBy(*PARTITION).orderBy(CHUNK).rowsBetween(Window.unboundedPreceding, -1)  # of chunks, not of records
        counts = chunks.groupBy(*PARTITION, CHUNK).agg(F.count(F.lit(1)).alias("count"))
        starts = counts.select(*PARTITION, CHUNK, F.coalesce(F.sum("count").over(before), F.lit(0)).alias("start"))
        ranked = chunks.withColumn("rank", F.row_number().over(in_chunk) - 1)
        return ranked.join(starts, [*PARTITION, CHUNK]).select(
            *PARTITION, CHUNK, "offset", DIGEST, (F.col("start") + F.col("rank")).alias(POSITION)
        )

    def _neighbourhoods(self, figures: Mapping[Key, PartitionFigures], buckets: DataFrame) -> list[Near]:
        """The first ranges that differ, and those beside them, wherever their records are."""
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
            found.append(Near(self._stretch(row, LEFT, bucket), self._stretch(row, RIGHT, bucket)))
        return found

    def _stretch(self, row: Any, side: str, bucket: int) -> Stretch | None:
        first, last = row[f"{side}_first"], row[f"{side}_last"]
        if first is None:
            return None
        start, end = (bucket - self._more) * self._size, (bucket + 1 + self._more) * self._size
        return Stretch(row["topic"], row["partition"], start, end, first // self._size, last // self._size)


def _any_of(stretches: Iterable[Stretch | None]) -> Column:
    """Whether a record is in one of them. Spark leaves out other chunks before it numbers."""
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
    """Offset and digest of the records around each partition's first difference, by number: at most 2 * CONTEXT of each, of each side."""
    conditions = [
        (F.col("topic") == topic) & (F.col("partition") == partition) & F.col(POSITION).between(first - CONTEXT, first + CONTEXT - 1)
        for (topic, partition), first in firsts.items()
    ]
    both = left.withColumn("side", F.lit(LEFT)).unionAll(right.withColumn("side", F.lit(RIGHT)))
    found: dict[tuple[str, int, str], dict[int, Place]] = {}
    for row in both.where(reduce(lambda one, other: one | other, conditions, F.lit(False))).collect():
        found.setdefault((row["topic"], row["partition"], row["side"]), {})[row[POSITION]] = (row["offset"], row[DIGEST])
    return found


def _found(key: Key, first: int, left: Mapping[int, Place], right: Mapping[int, Place], figures: PartitionFigures) -> Found:
    """What happened at number `first`."""
    ones, others = ([places[number][1] for number in sorted(places)] for places in (left, right))
    before = sum(number < first for number in left)  # as many as on the other side: both have all below `first`
    change = change_at(ones, others, before)
    count = change.count
    one, other = left.get(first), right.get(first)
    if one is None or other is None:
        count = abs(figures.left_count - figures.right_count)  # the window ends before the records do
    return Found(
        *key,
        change.kind,
        position=first,
        count=count,
        left_offset=one and one[0],
        right_offset=other and other[0],
        left_digest=one and one[1],
        right_digest=other and other[1],
    )


CONTEXT = 64  #: records before and from the first difference on that are looked at
ENOUGH = 16  #: records that agree again are no coincidence, or all up to the end


@dataclass(frozen=True, slots=True)
class Change:
    """What it is, and how many records in a row."""

    kind: str
    count: int


def change_at(left: Sequence[int], right: Sequence[int], index: int) -> Change:
    """What changed at `index`, the first place where the two differ.

    Args:
        left: digests of records in order: up to CONTEXT before `index`, and CONTEXT from there on, fewer where the side ends.
        right: likewise, beginning with the same record.
        index: left[:index] == right[:index], and not one more.
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
    """Whether they go on alike, as far as both go and we look; a side that goes on does not agree with one that has ended."""
    count = min(len(ones), len(others), ENOUGH)
    return ones[:count] == others[:count] if count else len(ones) == len(others)


def _more(digests: Sequence[int], index: int, count: int, *, is_left: bool) -> Change:
    """One side has more: the same again, or what the other lacks."""
    is_repeated = count <= index and digests[index - count : index] == digests[index : index + count]
    if is_left:
        return Change(DUPLICATE_LEFT if is_repeated else MISSING_RIGHT, count)
    return Change(DUPLICATE_RIGHT if is_repeated else MISSING_LEFT, count)
