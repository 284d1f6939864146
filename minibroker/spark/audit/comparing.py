"""Compare two DataFrames of digests: one row per group with the figures of both sides and whether they are equal.

The digest of a record has 64 bits and is computed by Spark's own functions, so no Python code touches a record.
It is xxhash64 over the compared columns, each after a flag for null: xxhash64 skips nulls, so without the flags
a null key before a value would equal that value before a null. Headers are digested as JSON, which distinguishes null
from empty and has an order. The digest finds accidents. It does not protect against forgery.

The digest of a group of records is their count, the xor of their digests, and the sums of both halves of the
digests (32 bits each, so no sum overflows below 2^31 records). A record that is there twice leaves the xor
unchanged, but not the count.

Both sides go through one aggregation in which the right side counts negative, so that equal groups sum up to
zero. Spark aggregates where it reads, and moves only a row per group and task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.audit.result import LEFT, RIGHT, DifferentRange
from minibroker.spark.failures import SourceError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


#: the columns that can be compared
COLUMNS = ("key", "value", "headers", "timestamp", "timestampType")
DEFAULT_COLUMNS = COLUMNS[:4]

LOW_HALF = 0xFFFFFFFF


def check_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the columns, each once, in the order of COLUMNS; SourceError for an unknown column, or no column."""
    requested = set(columns)
    unknown = sorted(requested - set(COLUMNS))
    if unknown:
        raise SourceError(f"an audit cannot compare {unknown[0]!r}: give some of {', '.join(COLUMNS)}")
    if not requested:
        raise SourceError(f"no column to compare: give some of {', '.join(COLUMNS)}")
    return tuple(name for name in COLUMNS if name in requested)


def digest(columns: Sequence[str]) -> Column:
    """Return the digest of a record, a long."""
    return F.xxhash64(*(part for name in columns for part in _parts(name)))


def _parts(name: str) -> list[Column]:
    column = F.col(name)
    if name != "headers":
        return [column.isNull(), column]
    # Without headers, the column is null in some sources and an empty array in others.
    as_json = F.to_json(column, {"ignoreNullFields": "true"})
    return [F.when(F.size(column) > 0, F.xxhash64(as_json)).otherwise(F.lit(0))]


def low_half(value: Column) -> Column:
    """Return the lower 32 bits as a number that is not negative."""
    return value.bitwiseAND(F.lit(LOW_HALF))


def high_half(value: Column) -> Column:
    """Return the upper 32 bits as a number that is not negative."""
    return F.shiftrightunsigned(value, 32)


PARTITION = ("topic", "partition")
POSITION = "position"  #: what records are matched by: the offset, or the number
DIGEST = "digest"
BUCKET = "bucket"  #: a range's number: its positions divided by the range's size


def bucket_of(position: str, size: int) -> Column:
    """Return the number of the range that a position is in."""
    return F.expr(f"{position} div {size:d}L").alias(BUCKET)


def compare(left: DataFrame, right: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return groups with their figures.

    Args:
        left: rows with `keys`, `offset` and `digest`.
        right: rows with the same columns.
        keys: the columns that define a group.

    Returns:
        keys, left_count, right_count, left_first, left_last, right_first, right_last (offsets, null if a side has none), is_different.
    """
    columns = [*keys, "offset", DIGEST]
    both = left.select(*columns, F.lit(1).alias("sign")).unionAll(right.select(*columns, F.lit(-1).alias("sign")))
    found = both.groupBy(*keys).agg(
        *_figures(LEFT, F.col("sign") > 0),
        *_figures(RIGHT, F.col("sign") < 0),
        F.bit_xor(DIGEST).alias("xor"),
        F.sum(F.col("sign") * low_half(F.col(DIGEST))).alias("low"),
        F.sum(F.col("sign") * high_half(F.col(DIGEST))).alias("high"),
    )
    is_same = (F.col("left_count") == F.col("right_count")) & (F.col("xor") == 0) & (F.col("low") == 0) & (F.col("high") == 0)
    return found.withColumn("is_different", ~is_same).drop("xor", "low", "high")


def _figures(side: str, condition: Column) -> list[Column]:
    offset = F.when(condition, F.col("offset"))
    return [F.count_if(condition).alias(f"{side}_count"), F.min(offset).alias(f"{side}_first"), F.max(offset).alias(f"{side}_last")]


class PartitionFigures(NamedTuple):
    """Sums over a partition's ranges. `first_different` is the number of the first range that differs, or -1."""

    left_count: int
    right_count: int
    range_count: int
    different_range_count: int
    first_different: int


def by_partition(buckets: DataFrame) -> dict[tuple[str, int], PartitionFigures]:
    """Collect the figures of each partition that has records, one row each."""
    is_different = F.col("is_different")
    found = buckets.groupBy(*PARTITION).agg(
        F.sum("left_count").alias("left_count"),
        F.sum("right_count").alias("right_count"),
        F.count(F.lit(1)).alias("range_count"),
        F.count_if(is_different).alias("different_range_count"),
        F.coalesce(F.min(F.when(is_different, F.col(BUCKET))), F.lit(-1)).alias("first_different"),
    )
    return {
        (row["topic"], row["partition"]): PartitionFigures(*(row[name] for name in PartitionFigures._fields)) for row in found.collect()
    }


def first_different(buckets: DataFrame, size: int, limit: int) -> tuple[DifferentRange, ...]:
    """Return the first ranges that differ, at most `limit`."""
    rows = buckets.where("is_different").orderBy(*PARTITION, BUCKET).limit(limit).collect()
    return tuple(
        DifferentRange(row["topic"], row["partition"], row[BUCKET] * size, (row[BUCKET] + 1) * size, row["left_count"], row["right_count"])
        for row in rows
    )
