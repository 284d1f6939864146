"""Scan topics with Spark: tasks read batches from leaders or files, and each returns one summary.

Executors use minibroker's client, because Spark's connector hides markers and aborted transactions. Only batches
show why an offset has no record. A task returns a few kilobytes, however large the topics are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from minibroker.client.routing import TopicPartition
from minibroker.spark.kafka_log.options import LogRange
from minibroker.spark.kafka_log.source import plan_reads
from minibroker.spark.report.counting import Counter, CountLimits
from minibroker.spark.report.reading import FetchTask, ReadTask
from minibroker.spark.report.runs import RangeSummary, cell_size, decode, encode, joined
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics, reading_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_A_CORE = 3
MIN_TASK_OFFSETS = 100_000
MIN_TASK_BYTES = 4 << 20
MAX_TASK_BYTES = 256 << 20
MAX_TASKS = 20_000


class ScanTask(NamedTuple):
    """One Spark task: its batches, how to count them, and its offsets (None: all offsets of the batches)."""

    key: TopicPartition
    batches: FetchTask | ReadTask
    limits: CountLimits
    start_offset: int | None
    end_offset: int | None


def scan(
    spark: SparkSession,
    source: ClusterSource | LogDirectorySource,
    resolved: ResolvedTopics,
    *,
    bucket_ms: int,
    gap_limit: int,
) -> dict[TopicPartition, RangeSummary]:
    """Return the summary of each range, by topic and partition."""
    limits = {
        each[:2]: CountLimits(each.start_offset, each.end_offset, bucket_ms, gap_limit, cell_size(each.size)) for each in resolved.ranges
    }
    slots = max(spark.sparkContext.defaultParallelism, 1)
    if isinstance(source, ClusterSource):
        tasks = list(_fetch_tasks(source, resolved, limits, slots))
    else:
        tasks = list(_read_tasks(source, resolved, limits, slots))
    found: dict[TopicPartition, list[RangeSummary]] = {key: [] for key in limits}
    if tasks:
        frame = spark.range(0, len(tasks), 1, min(len(tasks), MAX_TASKS))
        rows = frame.mapInArrow(partial(_run, tasks), "id long, summary binary").collect()
        for row in rows:
            found[tasks[row["id"]].key].append(decode(bytes(row["summary"])))
    return {key: joined(parts, limits[key].range_start, limits[key].range_end, gap_limit=gap_limit) for key, parts in sorted(found.items())}


def run_task(task: ScanTask) -> RangeSummary:
    """Count the batches of a task; executors call this."""
    counter = Counter(task.limits, task.start_offset, task.end_offset)
    for piece in task.batches.pieces():
        counter.add(piece)
    return counter.summary()


def _run(tasks: Sequence[ScanTask], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"id": [number], "summary": [encode(run_task(tasks[number]))]})


def _fetch_tasks(
    source: ClusterSource, resolved: ResolvedTopics, limits: Mapping[TopicPartition, CountLimits], slots: int
) -> Iterator[ScanTask]:
    """Cut ranges by offsets: large enough for a task, small enough to keep all cores busy."""
    total = sum(each.size for each in resolved.ranges)
    target = max(MIN_TASK_OFFSETS, -(-total // (slots * TASKS_A_CORE)))
    for each in resolved.ranges:
        parts = -(-each.size // target)
        for number in range(parts):
            start = each.start_offset + each.size * number // parts
            stop = each.start_offset + each.size * (number + 1) // parts
            wanted = PartitionRange(each.topic, each.partition, start, stop)
            topic_id = resolved.topic_ids.get(each.topic, "")
            task = FetchTask(source.bootstrap_servers, source.isolation_level, topic_id, wanted, source.client_config)
            yield ScanTask(each[:2], task, limits[each[:2]], start, stop)


def _read_tasks(
    source: LogDirectorySource, resolved: ResolvedTopics, limits: Mapping[TopicPartition, CountLimits], slots: int
) -> Iterator[ScanTask]:
    """Cut ranges by bytes, between batches."""
    ranges = [each for each in resolved.ranges if each.size]
    if not ranges:
        return
    planned = _planned(source, ranges, MAX_TASK_BYTES)
    target = max(MIN_TASK_BYTES, sum(each.size for each in planned) // (slots * TASKS_A_CORE))
    if target < MAX_TASK_BYTES:
        planned = _planned(source, ranges, target)
    for each in planned:
        yield ScanTask((each.topic, each.partition), ReadTask(each), limits[each.topic, each.partition], None, None)


def _planned(source: LogDirectorySource, ranges: Sequence[PartitionRange], task_bytes: int) -> list[LogRange]:
    options = {"maxPartitionBytes": str(task_bytes), **source.options, **reading_options(ranges)}
    return plan_reads(source.path, **options)
