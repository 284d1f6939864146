"""Match records by offset. The first difference is searched in the first range that differs, which is read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from minibroker.spark.audit.comparing import BUCKET, PARTITION, POSITION, PartitionFigures, bucket_of, compare
from minibroker.spark.audit.extents import Extent, Key, Ranges
from minibroker.spark.audit.reading import FirstDifference, SideReader
from minibroker.spark.audit.result import CHANGED, DUPLICATE_LEFT, DUPLICATE_RIGHT, MISSING_LEFT, MISSING_RIGHT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        """Nothing to release; ByOrder has."""

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
