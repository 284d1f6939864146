"""Read one side of an audit: digests of its records, and the records of first differences. Topics are named as on the left."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from minibroker.spark.audit.comparing import DIGEST, PARTITION, digest
from minibroker.spark.audit.extents import Key
from minibroker.spark.audit.result import CHANGED, Difference, SeenRecord
from minibroker.spark.audit.sides import Side
from minibroker.spark.sources.ranges import PartitionRange
from minibroker.spark.sources.table import TableSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


PREVIEW_SIZE = 64  #: bytes of a key or a value that are shown
PREVIEW_HEADERS = 8
LEAST_OFFSETS = 100_000  #: the least per task
MAX_SEEN = 1000  #: records that the driver collects to show; a table may have one offset many times

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """Return ISO 8601; Kafka's timestamps have ms, those of tables may have microseconds, and -1 is none."""
    if micros is None or micros < 0:
        return None
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if micros % 1000 else "milliseconds").replace("+00:00", "Z")


MAX_DETAILED = 100  #: partitions whose first difference is described


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
