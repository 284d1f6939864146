"""Which records of the source are replayed: by topic, by offset or time, by a condition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from minibroker.client.leaders import TopicPartition
from minibroker.spark.failures import reason_of
from minibroker.spark.replay.errors import ReplayError
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position
from minibroker.spark.sources.resolution import Bounds, resolve_ranges
from minibroker.spark.sources.table import TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def select(
    spark: SparkSession, source: str | DataFrame, *, topics: Sequence[str], starting: Position, ending: Position, where: str | None
) -> DataFrame:
    """The records; a table has the columns of all sources, a DataFrame those that it has. SourceError for what is not there."""
    frame = TableSource(source).frame(spark) if isinstance(source, str) else source
    if topics:
        frame = _of_topics(frame, topics)
    if (starting, ending) != (EARLIEST, LATEST):
        frame = _between(spark, TableSource(frame), topics, starting, ending)
    if where is None:
        return frame
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415  an extra

    try:
        return frame.where(where)
    except (AnalysisException, ParseException) as error:
        raise ReplayError(f"the condition {where!r} makes no sense for the source: {reason_of(error)}") from None


def _of_topics(frame: DataFrame, topics: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  as everybody calls it; an extra

    if "topic" not in frame.columns:
        raise ReplayError(f"the source has no column topic, of which {topics[0]} could be chosen")
    return frame.where(F.col("topic").isin(list(topics)))


def _between(spark: SparkSession, table: TableSource, topics: Sequence[str], starting: Position, ending: Position) -> DataFrame:
    """Positions are resolved as for topics: a time is the offset of the first record as late as it."""
    covered = {each[:2]: Bounds(each.start_offset, each.end_offset) for each in table.covered(spark, topics).ranges}

    def find(keys: Collection[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415  as above

        late = table.frame(spark).where(F.col("timestamp") >= F.timestamp_millis(F.lit(time_ms)))
        rows = late.groupBy("topic", "partition").agg(F.min("offset").alias("offset")).collect()
        return {key: row["offset"] for row in rows if (key := (row["topic"], row["partition"])) in keys}

    return table.frame(spark, resolve_ranges(covered, starting, ending, find))
