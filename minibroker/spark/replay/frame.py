"""The DataFrame of a replay: select the records of the source, cast their columns, count them, arrange one target partition per task.

The records are counted for each target partition in one pass over topic, partition and offset, before anything is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.client.routing import TopicPartition
from minibroker.spark.failures import ReplayError, reason_of
from minibroker.spark.replay.task import HEADERS, KEY, OFFSET, TARGET, TIMESTAMP, VALUE
from minibroker.spark.replay.writer import Target
from minibroker.spark.sources.positions import EARLIEST, LATEST, Bounds, Position, resolve_ranges
from minibroker.spark.sources.ranges import all_of
from minibroker.spark.sources.table import TableSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SOURCE_TOPIC, TOPIC, PARTITION = "source_topic", "topic", "partition"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
MASK = 0xFFFFFFFF
SEED = 42


@dataclass(frozen=True, slots=True)
class Selection:
    """How to use the columns of the source."""

    topic: str | None  #: where all records go; needed without a column `topic`
    rename: Mapping[str, str]  #: source topic -> target topic; others keep their name
    order_by: str | None  #: a column in place of `offset`
    keeps_timestamps: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """Records with the columns source_topic, topic, partition, offset, key, value, and optional headers and timestamp."""

    frame: DataFrame
    has_partitions: bool  #: else partitions are null, and keys decide
    is_resumable: bool  #: whether the source has offsets


def prepare(frame: DataFrame, selection: Selection) -> Prepared:
    """Choose and cast the columns; ReplayError for a missing column or an unsupported type."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    order = selection.order_by or ("offset" if "offset" in types else None)
    if selection.order_by and selection.order_by not in types:
        raise ReplayError(f"the source has no column {selection.order_by} to order by; it has {', '.join(types)}")
    if order and types[order] not in {"tinyint", "smallint", "int", "bigint"}:
        raise ReplayError(f"the column {order} is of type {types[order]}: an order needs whole numbers, each once in a partition")
    columns = [
        *_topics(types, selection),
        (F.col("partition").cast("int") if "partition" in types else F.lit(None).cast("int")).alias(PARTITION),
        (F.col(order).cast("long") if order else F.monotonically_increasing_id()).alias(OFFSET),
        _bytes(types, "key", is_needed=False).alias(KEY),
        _bytes(types, "value", is_needed=True).alias(VALUE),
    ]
    if "headers" in types:
        if types["headers"] not in {HEADERS_TYPE, "void"}:
            raise ReplayError(f"the column headers is of type {types['headers']}: it must be {HEADERS_TYPE}")
        columns.append(F.col("headers").cast(HEADERS_TYPE).alias(HEADERS))
    if selection.keeps_timestamps:
        if types.get("timestamp") not in {"timestamp", "timestamp_ntz", "void"}:
            raise ReplayError("timestamps cannot be kept: the source has no column timestamp of type timestamp")
        columns.append(F.col("timestamp").cast("timestamp").alias(TIMESTAMP))
    return Prepared(frame.select(*columns), "partition" in types, order is not None)


def _topics(types: Mapping[str, str], selection: Selection) -> list[Column]:
    """Return the columns of source topic and target topic."""
    if "topic" not in types:
        if selection.topic is None:
            raise ReplayError("the source has no column topic: say to which topic its records go")
        return [F.lit(selection.topic).alias(SOURCE_TOPIC), F.lit(selection.topic).alias(TOPIC)]
    source = F.col("topic").cast("string")
    target = F.lit(selection.topic) if selection.topic is not None else source
    for old, new in selection.rename.items():
        target = F.when(source == old, F.lit(new)).otherwise(target)
    return [source.alias(SOURCE_TOPIC), target.alias(TOPIC)]


def _bytes(types: Mapping[str, str], name: str, *, is_needed: bool) -> Column:
    if name not in types:
        if is_needed:
            raise ReplayError(f"the source has no column {name}; it has {', '.join(types)}")
        return F.lit(None).cast("binary")
    if types[name] not in {"binary", "string", "void"}:
        raise ReplayError(f"the column {name} is of type {types[name]}: make it binary or string, as it should be in the topic")
    return F.col(name).cast("binary")


def not_before(frame: DataFrame, next_offsets: Mapping[TopicPartition, int], sources: Mapping[str, str]) -> DataFrame:
    """Return the records that are not replayed yet; `sources` has the source topic of each target topic.

    The conditions are of a form that Parquet files can evaluate.
    """
    conditions = [
        (F.col(SOURCE_TOPIC) != sources[topic]) | (F.col(PARTITION) != partition) | (F.col(OFFSET) >= offset)
        for (topic, partition), offset in next_offsets.items()
        if topic in sources and offset > 0
    ]
    return frame.where(all_of(conditions)) if conditions else frame


def arrange(prepared: DataFrame, targets: Sequence[Target]) -> tuple[DataFrame, dict[int, Target]]:
    """Return the records with one task per target partition, by old offsets, and the targets by their numbers in the rows."""
    numbers = dict(zip(spread_numbers(len(targets)), targets, strict=True))
    by_topic: dict[str, dict[int, int]] = {}
    for number, target in numbers.items():
        by_topic.setdefault(target.topic, {})[target.partition] = number
    number_of: Column = F.lit(None).cast("int")
    for topic, partitions in by_topic.items():
        known = F.lit([partitions.get(index, -1) for index in range(max(partitions) + 1)])
        number_of = F.when(F.col(TOPIC) == topic, F.get(known, F.col(PARTITION)).cast("int")).otherwise(number_of)
    names = [name for name in (OFFSET, KEY, VALUE, HEADERS, TIMESTAMP) if name in prepared.columns]
    arranged = prepared.select(number_of.alias(TARGET), *names).repartition(len(targets), TARGET).sortWithinPartitions(OFFSET)
    return arranged, numbers


def hash_int(number: int) -> int:
    """Return Spark's `hash(number)` of an int, signed.

    It is Murmur3 (x86, 32 bits) with the seed 42; a row goes to the task pmod(hash, n).
    Source: org.apache.spark.unsafe.hash.Murmur3_x86_32, org.apache.spark.sql.catalyst.plans.physical.HashPartitioning.
    """
    word = _rotated(number * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
    hashed = (_rotated(SEED ^ word, 13) * 5 + 0xE6546B64) & MASK
    hashed ^= 4  # bytes of an int
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & MASK
    hashed ^= hashed >> 16
    return hashed - (1 << 32) if hashed >> 31 else hashed


def spread_numbers(tasks: int) -> list[int]:
    """Return the smallest numbers that Spark's hash partitioning sends to different tasks.

    With them, `repartition(tasks, number)` gives each target partition its own task.
    """
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(hash_int(number) % tasks, number)
        if len(found) == tasks:
            return sorted(found.values())
    raise AssertionError  # count() is infinite


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & MASK


def select(
    spark: SparkSession, source: str | DataFrame, *, topics: Sequence[str], starting: Position, ending: Position, where: str | None
) -> DataFrame:
    """Return the selected records: by topic, by offset or time, by a condition. SourceError if they do not exist."""
    frame = TableSource(source).frame(spark) if isinstance(source, str) else source
    if topics:
        frame = _of_topics(frame, topics)
    if (starting, ending) != (EARLIEST, LATEST):
        frame = _between(spark, TableSource(frame), topics, starting, ending)
    if where is None:
        return frame
    try:
        return frame.where(where)
    except (AnalysisException, ParseException) as error:
        raise ReplayError(f"the condition {where!r} is invalid for the source: {reason_of(error)}") from None


def _of_topics(frame: DataFrame, topics: Sequence[str]) -> DataFrame:
    if "topic" not in frame.columns:
        raise ReplayError(f"the source has no column topic to select {topics[0]} by")
    return frame.where(F.col("topic").isin(list(topics)))


def _between(spark: SparkSession, table: TableSource, topics: Sequence[str], starting: Position, ending: Position) -> DataFrame:
    """Resolve positions as for topics: a time is the offset of the first record at or after it."""
    covered = {each[:2]: Bounds(each.start_offset, each.end_offset) for each in table.covered(spark, topics).ranges}

    def find(keys: Collection[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        late = table.frame(spark).where(F.col("timestamp") >= F.timestamp_millis(F.lit(time_ms)))
        rows = late.groupBy("topic", "partition").agg(F.min("offset").alias("offset")).collect()
        return {key: row["offset"] for row in rows if (key := (row["topic"], row["partition"])) in keys}

    return table.frame(spark, resolve_ranges(covered, starting, ending, find))


class ScannedPartition(NamedTuple):
    """The records of one source partition, and their target."""

    source_topic: str
    topic: str
    partition: int
    records: int
    old_first: int
    old_last: int


def scan(frame: DataFrame) -> list[ScannedPartition]:
    """Return the partitions sorted by target; ReplayError for nulls, and for two source topics with one target."""
    figures = (
        F.count(F.lit(1)).alias("records"),
        F.count(OFFSET).alias("offsets"),
        F.min(OFFSET).alias("old_first"),
        F.max(OFFSET).alias("old_last"),
    )
    found = []
    for row in frame.groupBy(SOURCE_TOPIC, TOPIC, PARTITION).agg(*figures).collect():
        _check(row[SOURCE_TOPIC], row[PARTITION], row["records"], row["offsets"], row["old_first"])
        found.append(ScannedPartition(row[SOURCE_TOPIC], row[TOPIC], row[PARTITION], row["records"], row["old_first"], row["old_last"]))
    found.sort(key=lambda each: (each.topic, each.source_topic, each.partition))
    for one, other in pairwise(found):
        if one.topic == other.topic and one.source_topic != other.source_topic:
            raise ReplayError(
                f"records of {one.source_topic} and {other.source_topic} would both go to {one.topic}, in no defined order:"
                " replay one of them, or rename them to different topics"
            )
    return found


def check_targets(scanned: Sequence[ScannedPartition], before: Mapping[str, str]) -> None:
    """Raise ReplayError if earlier runs wrote records of another source topic; `before` has the source of each target."""
    for each in scanned:
        earlier = before.get(each.topic, each.source_topic)
        if earlier != each.source_topic:
            raise ReplayError(
                f"records of {each.source_topic} would go to {each.topic}, where earlier runs of this replay put those of {earlier}:"
                " rename them to different topics, under another name"
            )


def _check(topic: str | None, partition: int | None, records: int, offsets: int, old_first: int | None) -> None:
    if topic is None:
        raise ReplayError(f"{records} records of the source have a null topic: leave them out, or give one topic for all records")
    if partition is None:
        raise ReplayError(f"{records} records of topic {topic} have a null partition: leave them out, or the whole column, and keys decide")
    if offsets < records or old_first is None:
        raise ReplayError(f"{records - offsets} records of {topic}-{partition} have a null offset: leave them out, or the whole column")
    if partition < 0 or old_first < 0:
        raise ReplayError(f"the source has partition {partition} and offset {old_first} in topic {topic}: neither can be negative")
