"""The Spark part of a run: write records to files of a staging folder, then read the files again and check them.

Records are written in the order of offsets. A task has one open file per date (up to MAX_OPEN_FILES; then Spark
sorts the rest), so records are not moved between tasks. Then two columns of the files are read and counted. The
count must be the one that Spark observed while writing, and every offset must be in a range of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  as PySpark's own documentation calls it

from minibroker.spark.archive.files import FoundFile, TableFiles
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import PartitionRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
MAX_OPEN_FILES = 8  #: of a task; each has a buffer
OFFSETS_PER_TASK = 200_000  #: with less, the overhead of a task dominates
MAX_OFFSETS_PER_TASK = 10_000_000  #: with more, a failed task is expensive

#: the UTC date of a record; null for one without a timestamp, which Kafka and its connector show as -1 ms
DATE = "case when unix_millis(timestamp) >= 0 then date_from_unix_date(cast(unix_millis(timestamp) div 86400000 as int)) end"


class StagedFile(NamedTuple):
    """A file in staging; its path is relative to the staging folder's data."""

    path: str
    size: int
    record_count: int


class Counted(NamedTuple):
    """The records of a partition in a run."""

    record_count: int
    first_offset: int
    last_offset: int


class Staged(NamedTuple):
    """The files and figures of a run."""

    files: tuple[StagedFile, ...]
    partitions: Mapping[tuple[str, int], Counted]  #: by folder of the topic and partition


def task_counts(ranges: Sequence[PartitionRange], parallelism: int) -> tuple[int, int]:
    """Return the least number of tasks that read, and the most that write: few files, but all cores busy."""
    total = sum(each.size for each in ranges)
    partitions = len({each[:2] for each in ranges if each.size > 0})
    busy = min(parallelism, -(-total // (OFFSETS_PER_TASK // 10)))
    reading = max(-(-total // MAX_OFFSETS_PER_TASK), min(busy, -(-total // OFFSETS_PER_TASK)), 1)
    writing = max(-(-total // OFFSETS_PER_TASK), min(busy, partitions), reading, 1)
    return reading, writing


def archived_frame(frame: DataFrame, folders: Mapping[str, str], more: Mapping[str, Column] | None = None) -> DataFrame:
    """Return the columns of an archive: those of the source with folder names in `topic`, `date`, and `more` by name."""
    moved = {topic: folder for topic, folder in folders.items() if topic != folder}
    topic = F.col("topic")
    if moved:
        names = F.create_map(*[F.lit(each) for pair in moved.items() for each in pair])
        topic = F.coalesce(names[F.col("topic")], F.col("topic"))
    others = ["key", "value", "headers", "partition", "offset", "timestamp", "timestampType"]
    added = [column.alias(name) for name, column in (more or {}).items()]
    return frame.select(*others, *added, topic.alias("topic"), F.expr(DATE).alias("date"))


def stage(
    files: TableFiles,
    frame: DataFrame,
    ranges: Sequence[PartitionRange],
    folders: Mapping[str, str],
    data: str,
    *,
    compression: str,
    writing_tasks: int,
    more: Mapping[str, Column] | None = None,
    options: Mapping[str, str] | None = None,
) -> Staged:
    """Write a frame of exactly these ranges to the folder `data`, and check the files.

    Args:
        files: the file system of `data`.
        frame: records with COLUMNS of the sources.
        ranges: the ranges of the frame.
        folders: the folder name of each topic.
        data: a folder that does not exist yet.
        compression: one of COMPRESSIONS.
        writing_tasks: the most tasks that write.
        more: columns to add.
        options: more options of Spark's writer.

    Raises:
        SourceError: the files do not hold what was read; they must not be committed.
    """
    spark = frame.sparkSession
    seen = Observation()
    rows = archived_frame(frame, folders, more).coalesce(writing_tasks).observe(seen, F.count(F.lit(1)).alias("count"))
    writer = rows.write.format("parquet").mode("errorifexists").partitionBy("topic", "date").option("compression", compression)
    # one commit in Spark for all tasks, not one per task; no _SUCCESS file, since there is a manifest
    writer = writer.option("mapreduce.fileoutputcommitter.algorithm.version", "1")
    writer = writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    with (
        _setting(spark, "spark.sql.maxConcurrentOutputFileWriters", str(MAX_OPEN_FILES)),
        _setting(
            spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
        ),  # the default has 96 bits, which only Spark and Hive read
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
    """Count the records in the files of a staging folder, by their columns `partition` and `offset`."""
    found = [file for file in files.below(data) if file.path.startswith("topic=") and file.path.endswith(".parquet")]
    if not found:
        return Staged((), {})
    # read as text: Spark would infer a number for a topic 2026
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
        raise SourceError(f"Spark reads files that did not exist before: {min(set(counts) - {file.path for file in found})}")
    return Staged(tuple(StagedFile(file.path, file.size, counts.get(file.path, 0)) for file in found), partitions)


def check_partitions(partitions: Mapping[tuple[str, int], Counted], ranges: Sequence[PartitionRange], folders: Mapping[str, str]) -> None:
    """Raise SourceError for more records than the ranges have offsets, or for offsets outside of the ranges."""
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
                f"{key[0]}-{key[1]}: Spark read {found.record_count} records with offsets {found.first_offset} to {found.last_offset} for "
                f"the range [{first}, {end}): nothing of this run was kept"
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
