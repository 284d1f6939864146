"""The Spark side of a run: records into files of a staging folder, and what is in these files, by a second look at them.

Records go in as they come, in the order of offsets: with as many open files as a task meets dates (up to MAX_OPEN_FILES; then Spark sorts
the rest), no record is moved but into its file. Then two columns of the files are read again and counted: the count must be what Spark saw
going in, and every offset must lie in a range of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.archive.files import FoundFile, TableFiles
from minibroker.spark.errors import SourceError
from minibroker.spark.sources.ranges import PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
MAX_OPEN_FILES = 8  #: of one task; each has a buffer
OFFSETS_PER_TASK = 200_000  #: below this a task costs more than it does
MAX_OFFSETS_PER_TASK = 10_000_000  #: above this a task that fails costs much

#: the UTC date of a record; null for one without a timestamp, which Kafka and its connector show as -1 ms
DATE = "case when unix_millis(timestamp) >= 0 then date_from_unix_date(cast(unix_millis(timestamp) div 86400000 as int)) end"


class StagedFile(NamedTuple):
    """A file in staging; its path is relative to the staging's data."""

    path: str
    size: int
    record_count: int


class Counted(NamedTuple):
    """Records of a partition in a run."""

    record_count: int
    first_offset: int
    last_offset: int


class Staged(NamedTuple):
    """What a run wrote."""

    files: tuple[StagedFile, ...]
    partitions: Mapping[tuple[str, int], Counted]  #: by folder of the topic and partition


def task_counts(ranges: Sequence[PartitionRange], parallelism: int) -> tuple[int, int]:
    """How many tasks should read (at least), and how many should write (at most): few files, yet all cores at work."""
    total = sum(each.size for each in ranges)
    partitions = len({each[:2] for each in ranges if each.size > 0})
    busy = min(parallelism, -(-total // (OFFSETS_PER_TASK // 10)))
    reading = max(-(-total // MAX_OFFSETS_PER_TASK), min(busy, -(-total // OFFSETS_PER_TASK)), 1)
    writing = max(-(-total // OFFSETS_PER_TASK), min(busy, partitions), reading, 1)
    return reading, writing


def archived_frame(frame: DataFrame, folders: Mapping[str, str]) -> DataFrame:
    """The columns of an archive: those of the source, `topic` by the name of its folder, and `date`."""
    moved = {topic: folder for topic, folder in folders.items() if topic != folder}
    topic = F.col("topic")
    if moved:
        names = F.create_map(*[F.lit(each) for pair in moved.items() for each in pair])
        topic = F.coalesce(names[F.col("topic")], F.col("topic"))
    others = ["key", "value", "headers", "partition", "offset", "timestamp", "timestampType"]
    return frame.select(*others, topic.alias("topic"), F.expr(DATE).alias("date"))


def stage(
    files: TableFiles,
    frame: DataFrame,
    ranges: Sequence[PartitionRange],
    folders: Mapping[str, str],
    data: str,
    *,
    compression: str,
    writing_tasks: int,
    options: Mapping[str, str] | None = None,
) -> Staged:
    """Write a frame of exactly these ranges into the folder `data`, and look at what is there.

    Args:
        files: the file system of `data`.
        frame: COLUMNS of the sources.
        ranges: what is in it.
        folders: by topic, the name in its folder.
        data: a folder that is not there yet.
        compression: one of COMPRESSIONS.
        writing_tasks: so many at most.
        options: more of Spark's writer.

    Raises:
        SourceError: what is there is not what was read; nothing of it may be committed.
    """
    spark = frame.sparkSession
    seen = Observation()
    rows = archived_frame(frame, folders).coalesce(writing_tasks).observe(seen, F.count(F.lit(1)).alias("count"))
    writer = rows.write.format("parquet").mode("errorifexists").partitionBy("topic", "date").option("compression", compression)
    # one commit of Spark's for all tasks, not one a task; no _SUCCESS, our manifest says more
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "1")
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    with (
        _setting(spark, "spark.sql.maxConcurrentOutputFileWriters", str(MAX_OPEN_FILES)),
        _setting(
            spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
        ),  # the default is 96 bits that only Spark and Hive know
    ):
        writer.options(**(options or {})).save(files.url(data))
    staged = count(files, spark, data)
    record_count = sum(file.record_count for file in staged.files)
    if record_count != seen.get["count"]:
        raise SourceError(
            f"Spark read {seen.get['count']} records, and {record_count} are in the files: nothing of this run was kept; "
            "does another job use the archive?"
        )
    check_partitions(staged.partitions, ranges, folders)
    return staged


def count(files: TableFiles, spark: SparkSession, data: str) -> Staged:
    """What the files of a staging folder have, by their columns `partition` and `offset`."""
    found = [file for file in files.below(data) if file.path.startswith("topic=") and file.path.endswith(".parquet")]
    if not found:
        return Staged((), {})
    # text, whatever the names look like; as a column it would be numbers for a topic 2026
    table = spark.read.schema("partition int, offset long, topic string, date string").parquet(files.url(data))
    groups = table.groupBy(F.col("_metadata.file_name").alias("name"), "topic", "date", "partition")
    rows = groups.agg(F.count("offset").alias("count"), F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
    return _staged(found, rows)


def _staged(found: Sequence[FoundFile], rows: Sequence[Any]) -> Staged:
    counts: dict[str, int] = {}
    partitions: dict[tuple[str, int], Counted] = {}
    for row in rows:
        date = row["date"] or "__HIVE_DEFAULT_PARTITION__"
        path = f"topic={row['topic']}/date={date}/{row['name']}"
        counts[path] = counts.get(path, 0) + row["count"]
        before = partitions.get((row["topic"], row["partition"]), Counted(0, row["first"], row["last"]))
        partitions[row["topic"], row["partition"]] = Counted(
            before.record_count + row["count"], min(before.first_offset, row["first"]), max(before.last_offset, row["last"])
        )
    if set(counts) - {file.path for file in found}:
        raise SourceError(f"Spark reads files that were not there before: {min(set(counts) - {file.path for file in found})}")
    return Staged(tuple(StagedFile(file.path, file.size, counts.get(file.path, 0)) for file in found), partitions)


def check_partitions(partitions: Mapping[tuple[str, int], Counted], ranges: Sequence[PartitionRange], folders: Mapping[str, str]) -> None:
    """SourceError when there is more than the ranges can have, or something from outside."""
    sizes: dict[tuple[str, int], int] = {}
    bounds: dict[tuple[str, int], tuple[int, int]] = {}
    for each in ranges:
        key = folders[each.topic], each.partition
        sizes[key] = sizes.get(key, 0) + each.size
        first, end = bounds.get(key, (each.start_offset, each.end_offset))
        bounds[key] = min(first, each.start_offset), max(end, each.end_offset)
    for key, found in partitions.items():
        first, end = bounds.get(key, (0, 0))
        if found.record_count > sizes.get(key, 0) or found.first_offset < first or found.last_offset >= end:
            raise SourceError(
                f"{key[0]}-{key[1]}: {found.record_count} records with offsets {found.first_offset} to {found.last_offset} came for the "
                f"range [{first}, {end}): nothing of this run was kept"
            )


@contextmanager
def _setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
