"""The part of a report that Spark does: tasks read batches, from leaders or from files, and each sends back one summary.

Executors fetch by minibroker's own client, for Spark's connector tells neither of markers nor of aborted transactions: only who sees the
batches knows why an offset has no record. What comes back to the driver is a few kilobytes a task, however large the topics are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from minibroker.client.leaders import TopicPartition
from minibroker.spark.kafka_log.ranges import LogRange
from minibroker.spark.kafka_log.source import plan_reads
from minibroker.spark.report.counting import Counter, Limits
from minibroker.spark.report.fetching import FetchTask
from minibroker.spark.report.reading import ReadTask
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


class Job(NamedTuple):
    """What a task of Spark does: where the batches are, how they are counted, and which offsets are its own (None: all it finds)."""

    key: TopicPartition
    task: FetchTask | ReadTask
    limits: Limits
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
    """What each of the ranges holds, by topic and partition."""
    limits = {each[:2]: Limits(each.start_offset, each.end_offset, bucket_ms, gap_limit, cell_size(each.size)) for each in resolved.ranges}
    slots = max(spark.sparkContext.defaultParallelism, 1)
    if isinstance(source, ClusterSource):
        jobs = list(_fetch_jobs(source, resolved, limits, slots))
    else:
        jobs = list(_read_jobs(source, resolved, limits, slots))
    found: dict[TopicPartition, list[RangeSummary]] = {key: [] for key in limits}
    if jobs:
        frame = spark.range(0, len(jobs), 1, min(len(jobs), MAX_TASKS))
        rows = frame.mapInArrow(partial(_run, jobs), "id long, summary binary").collect()
        for row in rows:
            found[jobs[row["id"]].key].append(decode(bytes(row["summary"])))
    return {key: joined(parts, limits[key].range_start, limits[key].range_end, gap_limit=gap_limit) for key, parts in sorted(found.items())}


def run_job(job: Job) -> RangeSummary:
    """The work of an executor."""
    counter = Counter(job.limits, job.start_offset, job.end_offset)
    for piece in job.task.pieces():
        counter.add(piece)
    return counter.summary()


def _run(jobs: Sequence[Job], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pydict({"id": [number], "summary": [encode(run_job(jobs[number]))]})


def _fetch_jobs(source: ClusterSource, resolved: ResolvedTopics, limits: Mapping[TopicPartition, Limits], slots: int) -> Iterator[Job]:
    """Ranges cut by offsets: large enough to be worth a task, small enough to keep all cores busy."""
    total = sum(each.size for each in resolved.ranges)
    target = max(MIN_TASK_OFFSETS, -(-total // (slots * TASKS_A_CORE)))
    for each in resolved.ranges:
        parts = -(-each.size // target)
        for number in range(parts):
            start = each.start_offset + each.size * number // parts
            stop = each.start_offset + each.size * (number + 1) // parts
            wanted = PartitionRange(each.topic, each.partition, start, stop)
            task = FetchTask(source.bootstrap_servers, source.isolation_level, resolved.topic_ids.get(each.topic, ""), wanted)
            yield Job(each[:2], task, limits[each[:2]], start, stop)


def _read_jobs(source: LogDirectorySource, resolved: ResolvedTopics, limits: Mapping[TopicPartition, Limits], slots: int) -> Iterator[Job]:
    """Ranges cut by bytes, where batches begin."""
    ranges = [each for each in resolved.ranges if each.size]
    if not ranges:
        return
    planned = _planned(source, ranges, MAX_TASK_BYTES)
    target = max(MIN_TASK_BYTES, sum(each.size for each in planned) // (slots * TASKS_A_CORE))
    if target < MAX_TASK_BYTES:
        planned = _planned(source, ranges, target)
    for each in planned:
        yield Job((each.topic, each.partition), ReadTask(each), limits[each.topic, each.partition], None, None)


def _planned(source: LogDirectorySource, ranges: Sequence[PartitionRange], task_bytes: int) -> list[LogRange]:
    options = {"maxPartitionBytes": str(task_bytes), **source.options, **reading_options(ranges)}
    return plan_reads(source.path, **options)
