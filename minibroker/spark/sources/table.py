"""A table as a source: files in Parquet or Delta, an archive, or any DataFrame that has the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.archive.files import open_folder
from minibroker.spark.archive.manifest import current
from minibroker.spark.archive.reading import is_archive, read_archive, read_manifest
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import COLUMNS, SCHEMA, PartitionRange, ResolvedTopics, any_of, without

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: columns that a table may lack, with the value that they then have
OPTIONAL = {"key": "null", "headers": "null", "timestamp": "null", "timestampType": "0"}


class TableSource:
    """Records of a table.

    Args:
        table: the path of the files, or a DataFrame.
        format: `parquet` or `delta`. Default: an archive's format if it is one, else Parquet.
        topic: the topic of all records, for a table without a column `topic`.

    Columns other than COLUMNS are ignored. The columns in OPTIONAL may be missing.
    """

    def __init__(self, table: str | DataFrame, *, format: str | None = None, topic: str | None = None) -> None:  # noqa: A002  Spark's name
        self.table = table
        self.format = format
        self.topic = topic

    def frame(self, spark: SparkSession, ranges: Sequence[PartitionRange] | None = None) -> DataFrame:
        """Return the records of these ranges, or all, with COLUMNS. SourceError for no such table, or missing columns."""
        found = self._columns(self._load(spark))
        if ranges is None:
            return found
        condition = _within(ranges)
        return found.where(condition) if condition is not None else spark.createDataFrame([], SCHEMA)

    def covered(self, spark: SparkSession, topics: Sequence[str] = ()) -> ResolvedTopics:
        """Return the ranges of the table: what was archived for an archive, else from the first to the last offset."""
        archived = self._archived(spark, topics)
        if archived is not None:
            return archived
        frame = self.frame(spark)
        if topics:
            frame = frame.where(F.col("topic").isin(list(topics)))
        rows = frame.groupBy("topic", "partition").agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
        ranges = sorted(PartitionRange(row["topic"], row["partition"], row["first"], row["last"] + 1) for row in rows)
        missing = sorted(set(topics) - {each.topic for each in ranges})
        if missing:
            raise SourceError(f"{self} has no record of topic {missing[0]}")
        return ResolvedTopics({each.topic: "" for each in ranges}, tuple(ranges), "")

    def __str__(self) -> str:
        return self.table if isinstance(self.table, str) else "the DataFrame"

    def _archived(self, spark: SparkSession, topics: Sequence[str]) -> ResolvedTopics | None:
        """Return the archived ranges from the manifest, without allowed gaps; None if the table is not an archive."""
        if not isinstance(self.table, str) or self.format is not None or not is_archive(spark, self.table):
            return None
        manifest = read_manifest(spark, self.table)
        found = current(manifest.topics)
        missing = sorted(set(topics) - set(found))
        if missing:
            raise SourceError(f"{self} has no record of topic {missing[0]}")
        chosen = [found[name] for name in sorted(topics or found)]
        gaps = [
            PartitionRange(*gap)
            for run in manifest.runs
            for gap in run.gaps
            if gap.topic in found
            and current(run.topics)[gap.topic].folder == found[gap.topic].folder  # the gap of an older topic of this name does not count
        ]
        ranges = without([each for topic in chosen for each in topic.ranges], gaps)
        return ResolvedTopics({each.topic: each.topic_id for each in chosen}, ranges, chosen[0].cluster_id if chosen else "")

    def _load(self, spark: SparkSession) -> DataFrame:
        if not isinstance(self.table, str):
            return self.table
        if self.format is None and is_archive(spark, self.table):
            return read_archive(spark, self.table)
        files, path = open_folder(spark, self.table)
        if files.size(f"{path}/_temporary") is not None:
            raise SourceError(
                f"{self.table} is half written: the job that wrote it died, or is still running (it holds _temporary, so the files "
                "beside it are incomplete)"
            )
        try:
            return spark.read.format(self.format or "parquet").load(self.table)
        except AnalysisException as error:
            first = str(error).strip().splitlines()[0]
            raise SourceError(f"{self.table} is not a table that Spark can read: {first}") from None

    def _columns(self, frame: DataFrame) -> DataFrame:
        types = dict(part.split(" ", 1) for part in _fields(SCHEMA))
        existing = set(frame.columns)
        chosen: list[Column] = []
        for name in COLUMNS:
            if name in existing:
                chosen.append(F.col(name).cast(types[name]).alias(name))
            elif name == "topic" and self.topic is not None:
                chosen.append(F.lit(self.topic).alias(name))
            elif name in OPTIONAL:
                chosen.append(F.expr(OPTIONAL[name]).cast(types[name]).alias(name))
            else:
                raise SourceError(f"{self} has no column {name}; it has {', '.join(frame.columns)}")
        return frame.select(*chosen)


def _fields(schema: str) -> list[str]:
    """Return the fields of SCHEMA; commas within <> belong to a type."""
    found, depth = [""], 0
    for letter in schema:
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [field.strip() for field in found]


def _within(ranges: Sequence[PartitionRange]) -> Column | None:
    """Return the condition that a record is in one of the ranges; None if no range has offsets."""
    conditions = [
        (F.col("topic") == each.topic)
        & (F.col("partition") == each.partition)
        & (F.col("offset") >= each.start_offset)
        & (F.col("offset") < each.end_offset)
        for each in ranges
        if each.size > 0
    ]
    return any_of(conditions) if conditions else None
