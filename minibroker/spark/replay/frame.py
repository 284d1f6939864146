"""The DataFrame of a replay: whatever the user has becomes columns that tasks can write, arranged one target partition a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minibroker.client.leaders import TopicPartition
from minibroker.spark.replay.errors import ReplayError
from minibroker.spark.replay.placement import spread_numbers
from minibroker.spark.replay.task import HEADERS, KEY, OFFSET, TARGET, TIMESTAMP, VALUE
from minibroker.spark.replay.writer import Target
from minibroker.spark.sources.conditions import all_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCE_TOPIC, TOPIC, PARTITION = "source_topic", "topic", "partition"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class Selection:
    """How the columns of the source are to be understood."""

    topic: str | None  #: where all records go; needed where there is no column `topic`
    rename: Mapping[str, str]  #: source topic -> target topic; others keep their name
    order_by: str | None  #: a column in place of `offset`
    keeps_timestamps: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """Records with the columns source_topic, topic, partition, offset, key, value, maybe headers, maybe timestamp."""

    frame: DataFrame
    has_partitions: bool  #: else they are null, and follow from the key
    is_resumable: bool  #: whether offsets are the records' own


def prepare(frame: DataFrame, selection: Selection) -> Prepared:
    """Choose and cast the columns; ReplayError for one that is missing or of a type that cannot be."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as everybody calls it; an extra

    there = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    order = selection.order_by or ("offset" if "offset" in there else None)
    if selection.order_by and selection.order_by not in there:
        raise ReplayError(f"the source has no column {selection.order_by} to order by; it has {', '.join(there)}")
    if order and there[order] not in {"tinyint", "smallint", "int", "bigint"}:
        raise ReplayError(f"the column {order} is of type {there[order]}: an order needs whole numbers, each once in a partition")
    columns = [
        *_topics(there, selection),
        (F.col("partition").cast("int") if "partition" in there else F.lit(None).cast("int")).alias(PARTITION),
        (F.col(order).cast("long") if order else F.monotonically_increasing_id()).alias(OFFSET),
        _bytes(there, "key", is_needed=False).alias(KEY),
        _bytes(there, "value", is_needed=True).alias(VALUE),
    ]
    if "headers" in there:
        if there["headers"] not in {HEADERS_TYPE, "void"}:
            raise ReplayError(f"the column headers is of type {there['headers']}: it must be {HEADERS_TYPE}")
        columns.append(F.col("headers").cast(HEADERS_TYPE).alias(HEADERS))
    if selection.keeps_timestamps:
        if there.get("timestamp") not in {"timestamp", "timestamp_ntz", "void"}:
            raise ReplayError("timestamps are to be kept, and the source has no column timestamp of type timestamp")
        columns.append(F.col("timestamp").cast("timestamp").alias(TIMESTAMP))
    return Prepared(frame.select(*columns), "partition" in there, order is not None)


def _topics(there: Mapping[str, str], selection: Selection) -> list[Column]:
    """Source topic and target topic."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

    if "topic" not in there:
        if selection.topic is None:
            raise ReplayError("the source has no column topic: say to which topic its records go")
        return [F.lit(selection.topic).alias(SOURCE_TOPIC), F.lit(selection.topic).alias(TOPIC)]
    source = F.col("topic").cast("string")
    target = F.lit(selection.topic) if selection.topic is not None else source
    for old, new in selection.rename.items():
        target = F.when(source == old, F.lit(new)).otherwise(target)
    return [source.alias(SOURCE_TOPIC), target.alias(TOPIC)]


def _bytes(there: Mapping[str, str], name: str, *, is_needed: bool) -> Column:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

    if name not in there:
        if is_needed:
            raise ReplayError(f"the source has no column {name}; it has {', '.join(there)}")
        return F.lit(None).cast("binary")
    if there[name] not in {"binary", "string", "void"}:
        raise ReplayError(f"the column {name} is of type {there[name]}: make it binary or string, as it shall stand in the topic")
    return F.col(name).cast("binary")


def not_before(frame: DataFrame, next_offsets: Mapping[TopicPartition, int], sources: Mapping[str, str]) -> DataFrame:
    """Without what was replayed; `sources` has the source topic of each target topic. In terms that files of Parquet can judge."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

    conditions = [
        (F.col(SOURCE_TOPIC) != sources[topic]) | (F.col(PARTITION) != partition) | (F.col(OFFSET) >= offset)
        for (topic, partition), offset in next_offsets.items()
        if topic in sources and offset > 0
    ]
    return frame.where(all_of(conditions)) if conditions else frame


def arrange(prepared: DataFrame, targets: Sequence[Target]) -> tuple[DataFrame, dict[int, Target]]:
    """Each target partition in a task of its own, by old offsets; and the targets by the numbers that stand for them in the rows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

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
