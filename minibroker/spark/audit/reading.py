"""Read one side of an audit: digests of its records, and the records of first differences. Topics are named as on the left.

A side is a cluster, a log directory, or a table (files, an archive, a DataFrame). `parse_side` reads the text of a side.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.audit.comparing import DIGEST, PARTITION, digest
from minibroker.spark.audit.extents import Key
from minibroker.spark.audit.result import CHANGED, Difference, SeenRecord
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import EARLIEST, EARLIEST_OFFSET, LATEST, LATEST_OFFSET, Position, topics_matching
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.spark.sources.table import TableSource
from minibroker.storage.directory_files import META_PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Side = ClusterSource | LogDirectorySource | TableSource
CLUSTER = "kafka:"
LOG_DIRECTORY = "log:"
TABLE = "table:"
DELTA = "delta:"
SERVERS = re.compile(r"[^/,:]+:\d+(,[^/,:]+:\d+)*|\[[0-9a-fA-F:]+\]:\d+(,\S+)?")
PREVIEW_SIZE = 64  #: bytes of a key or a value that are shown
PREVIEW_HEADERS = 8
LEAST_OFFSETS = 100_000  #: the least per task
MAX_SEEN = 1000  #: records that the driver collects to show; a table may have one offset many times
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_DETAILED = 100  #: partitions whose first difference is described


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

    Raises:
        SourceError: the text is empty, or the side's class rejects an argument.
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
        chosen = {*topics, *topics_matching(pattern, {each.topic for each in ranges})}
        ranges = tuple(each for each in ranges if each.topic in chosen)
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


@dataclass(frozen=True, slots=True)
class Seen:
    """A record to show, with its digest and those of its columns."""

    record: SeenRecord
    digest: int
    column_digests: tuple[int, ...]


class SideReader:
    """Reads one side.

    Args:
        spark: the session.
        side: the side to read.
        columns: the compared columns.
        renames: topics' names on this side, by their names on the left; others have one name.
    """

    def __init__(self, spark: SparkSession, side: Side, columns: Sequence[str], renames: Mapping[str, str]) -> None:
        self._spark = spark
        self._side = side
        self.columns = tuple(columns)
        self._renames = {own: name for name, own in renames.items()}
        self._own = dict(renames)

    def digests(self, ranges: Iterable[PartitionRange]) -> DataFrame:
        """Return topic, partition, offset and digest of each record."""
        return self._frame(ranges).select(*PARTITION, "offset", digest(self.columns).alias(DIGEST))

    def seen(self, places: Collection[tuple[str, int, int]]) -> dict[tuple[str, int, int], list[Seen]]:
        """Return the distinct records at these (topic, partition, offset), at most MAX_SEEN in all."""
        if not places:
            return {}
        frame = self._frame([PartitionRange(topic, partition, offset, offset + 1) for topic, partition, offset in places])
        rows = frame.select(
            *PARTITION,
            "offset",
            digest(self.columns).alias(DIGEST),
            F.array(*(digest([name]) for name in self.columns)).alias("column_digests"),
            *_previews(),
        )
        found: dict[tuple[str, int, int], list[Seen]] = {}
        for row in rows.dropDuplicates([*PARTITION, "offset", DIGEST]).limit(MAX_SEEN).collect():
            seen = Seen(_record(row), row[DIGEST], tuple(row["column_digests"]))
            found.setdefault((row["topic"], row["partition"], row["offset"]), []).append(seen)
        return found

    def _frame(self, ranges: Iterable[PartitionRange]) -> DataFrame:
        own = [each._replace(topic=self._own.get(each.topic, each.topic)) for each in ranges]
        frame = self._read(own)
        return frame.withColumn("topic", self._left_name()) if self._renames else frame

    def _read(self, ranges: Sequence[PartitionRange]) -> DataFrame:
        if isinstance(self._side, TableSource):
            return self._side.frame(self._spark, ranges)
        # by default Spark's connector makes one task per partition, whatever its size
        tasks = min(self._spark.sparkContext.defaultParallelism, sum(each.size for each in ranges) // LEAST_OFFSETS)
        return self._side.frame(self._spark, ranges, min_partitions=tasks)

    def _left_name(self) -> Column:
        names = F.create_map(*(F.lit(name) for pair in self._renames.items() for name in pair))
        return F.coalesce(names[F.col("topic")], F.col("topic"))


def _previews() -> list[Column]:
    headers = F.slice("headers", 1, PREVIEW_HEADERS)
    return [
        *(F.substring(name, 1, PREVIEW_SIZE).alias(name) for name in ("key", "value")),
        *(F.octet_length(name).alias(f"{name}_size") for name in ("key", "value")),
        F.transform(headers, lambda each: F.struct(each["key"], F.substring(each["value"], 1, PREVIEW_SIZE).alias("value"))).alias(
            "headers"
        ),
        F.unix_micros("timestamp").alias("timestamp_us"),
    ]


def _record(row: Any) -> SeenRecord:
    return SeenRecord(
        offset=row["offset"],
        key=_bytes(row["key"]),
        key_size=row["key_size"],
        value=_bytes(row["value"]),
        value_size=row["value_size"],
        headers=tuple((each["key"], _bytes(each["value"])) for each in row["headers"] or ()),
        timestamp=_time(row["timestamp_us"]),
    )


def _bytes(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)


def _time(micros: int | None) -> str | None:
    """Return ISO 8601; Kafka's timestamps have ms, those of tables may have microseconds, and -1 means no timestamp."""
    if micros is None or micros < 0:
        return None
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if micros % 1000 else "milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where a partition first differs; see Difference. Digests select among records of one offset; None: any."""

    topic: str
    partition: int
    kind: str
    position: int
    count: int
    left_offset: int | None
    right_offset: int | None
    left_digest: int | None = None
    right_digest: int | None = None


def describe(found: Sequence[FirstDifference], left: SideReader, right: SideReader) -> dict[Key, Difference]:
    """Return the differences with their records, which are read again from both sides."""
    lefts = left.seen([(each.topic, each.partition, each.left_offset) for each in found if each.left_offset is not None])
    rights = right.seen([(each.topic, each.partition, each.right_offset) for each in found if each.right_offset is not None])
    differences = {}
    for each in found:
        ones = _of(lefts.get((each.topic, each.partition, each.left_offset or 0), ()), each.left_digest)
        others = _of(rights.get((each.topic, each.partition, each.right_offset or 0), ()), each.right_digest)
        one = ones[0].record if ones and each.left_offset is not None else None
        other = others[0].record if others and each.right_offset is not None else None
        changed = _changed(ones, others, left.columns) if each.kind == CHANGED else ()
        differences[each.topic, each.partition] = Difference(each.kind, changed, each.position, each.count, one, other)
    return differences


def _of(seen: Iterable[Seen], digest: int | None) -> list[Seen]:
    return sorted((each for each in seen if digest is None or each.digest == digest), key=lambda each: each.digest)


def _changed(ones: Sequence[Seen], others: Sequence[Seen], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns whose values differ."""
    return tuple(
        name
        for index, name in enumerate(columns)
        if {each.column_digests[index] for each in ones} != {each.column_digests[index] for each in others}
    )
