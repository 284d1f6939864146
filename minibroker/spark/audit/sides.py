"""Sides of an audit: clusters, log directories, tables (files, archives, DataFrames); their texts and their ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import EARLIEST, EARLIEST_OFFSET, LATEST, LATEST_OFFSET, Position
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.spark.sources.resolution import topics_matching
from minibroker.spark.sources.table import TableSource
from minibroker.storage.directory_files import META_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Side = ClusterSource | LogDirectorySource | TableSource

CLUSTER = "kafka:"
LOG_DIRECTORY = "log:"
TABLE = "table:"
DELTA = "delta:"
SERVERS = re.compile(r"[^/,:]+:\d+(,[^/,:]+:\d+)*|\[[0-9a-fA-F:]+\]:\d+(,\S+)?")


def parse_side(
    text: str,
    *,
    isolation_level: str = "read_committed",
    options: Mapping[str, str] | None = None,
    client_config: Mapping[str, str] | None = None,
) -> Side:
    """Parse a side of the comparison.

    Args:
        text: HOST:PORT,... is a cluster. A directory with meta.properties is a log directory. Any other path or
            address is a table. The prefixes `kafka:`, `log:`, `table:` and `delta:` choose explicitly.
        isolation_level: of clusters and log directories.
        options: of a cluster; see ClusterSource.
        client_config: of a cluster, likewise.
    """
    if text.startswith(CLUSTER):
        return ClusterSource(text.removeprefix(CLUSTER), isolation_level=isolation_level, options=options, client_config=client_config)
    if text.startswith(LOG_DIRECTORY):
        return LogDirectorySource(text.removeprefix(LOG_DIRECTORY), isolation_level=isolation_level)
    if text.startswith(TABLE):
        return TableSource(text.removeprefix(TABLE))
    if text.startswith(DELTA):
        return TableSource(text.removeprefix(DELTA), format="delta")
    if not text:
        raise SourceError("a side of an audit is empty: give HOST:PORT, a log directory or a table")
    if SERVERS.fullmatch(text):
        return ClusterSource(text, isolation_level=isolation_level, options=options, client_config=client_config)
    if all((Path(part) / META_PROPERTIES).is_file() for part in text.split(",")):
        return LogDirectorySource(text, isolation_level=isolation_level)
    return TableSource(text)


def name_of(side: Side) -> str:
    """Return the name of a side in results."""
    if isinstance(side, ClusterSource):
        return f"cluster {side.bootstrap_servers}"
    if isinstance(side, LogDirectorySource):
        return f"log directory {side.path}"
    return f"table {side.table}" if isinstance(side.table, str) else "DataFrame"


def ranges_of(
    spark: SparkSession,
    side: Side,
    topics: Sequence[str] = (),
    *,
    pattern: str | None = None,
    starting: Position = EARLIEST,
    ending: Position = LATEST,
) -> tuple[PartitionRange, ...]:
    """Return the ranges of a side within bounds: of these topics, of those that match, or of a whole table.

    Raises:
        SourceError: no such topic or offsets.
    """
    if not isinstance(side, TableSource):
        return side.resolve(topics, pattern=pattern, starting=starting, ending=ending).ranges
    ranges = side.covered(spark, () if pattern is not None else topics).ranges
    if pattern is not None:
        there = {each.topic for each in ranges}
        wanted = {*topics, *topics_matching(pattern, there)}
        ranges = tuple(each for each in ranges if each.topic in wanted)
    if (starting, ending) == (EARLIEST, LATEST):
        return ranges
    frame = side.frame(spark, ranges)
    starts, ends = _numbers(frame, ranges, starting), _numbers(frame, ranges, ending)
    found = [each._replace(start_offset=starts[each[:2]], end_offset=ends[each[:2]]) for each in ranges]
    for each in found:
        if each.size < 0:
            raise SourceError(
                f"the range of {each.topic}-{each.partition} ends at offset {each.end_offset}, before its start at {each.start_offset}"
            )
    return tuple(found)


def _numbers(frame: DataFrame, ranges: Sequence[PartitionRange], position: Position) -> dict[tuple[str, int], int]:
    """Return the offset of a position in each partition; the table may lack it, since an audit looks for missing records."""
    if position.timestamp_ms is not None:
        by_time = _by_time(frame, position.timestamp_ms)
        return {each[:2]: by_time.get(each[:2], each.end_offset) for each in ranges}
    found = {}
    for each in ranges:
        number = position.everywhere if position.by_partition is None else position.by_partition.get(each[:2])
        if number is None:
            raise SourceError(f"the bounds have no offset for {each.topic}-{each.partition}: give -2 (earliest), -1 (latest) or an offset")
        found[each[:2]] = {EARLIEST_OFFSET: each.start_offset, LATEST_OFFSET: each.end_offset}.get(number, number)
    return found


def _by_time(frame: DataFrame, time_ms: int) -> dict[tuple[str, int], int]:
    """Return the first offset at or after a time, of each partition that has one."""
    late = frame.where(F.col("timestamp") >= F.timestamp_millis(F.lit(time_ms)))
    return {
        (row["topic"], row["partition"]): row["first"]
        for row in late.groupBy("topic", "partition").agg(F.min("offset").alias("first")).collect()
    }
