"""`report`: combine what brokers or files know with what Spark counts. The result is a dict, JSON, text, a picture or DataFrames."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minibroker.client.connection import Connect
from minibroker.client.offsets import ISOLATION_LEVELS, READ_COMMITTED
from minibroker.errors import UnsupportedCompressionType
from minibroker.records.compression import Compression
from minibroker.spark.failures import SourceError
from minibroker.spark.report.cluster_facts import ClusterFacts
from minibroker.spark.report.directory_facts import DirectoryFacts
from minibroker.spark.report.picture import draw
from minibroker.spark.report.results import (
    BUCKETS,
    Bucket,
    Contents,
    Facts,
    Gap,
    PartitionFacts,
    PartitionInfo,
    ProducerInfo,
    ReportValues,
    TopicInfo,
    bucket_text,
    time_text,
)
from minibroker.spark.report.runs import NO_BUCKET, NO_TIMESTAMP, RangeSummary, Run, cell_size, longest
from minibroker.spark.report.tables import report_text
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import Position, as_position
from minibroker.spark.sources.ranges import ResolvedTopics
from minibroker.storage.files import RealFiles

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA_VERSION = 1
_BOUNDS = ("log_start_offset", "last_stable_offset", "high_watermark", "log_end_offset", "size")
_COUNTS = ("records", "bytes", "batches", "batch_bytes", "control", "aborted", "compacted", "missing", "gap_count")
DEFAULT_GAPS = 10


@dataclass(frozen=True)
class OffsetReport(ReportValues):
    """The contents of topics, in several forms."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON; `schema_version` increases when a field is removed or changes its meaning."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self), "taken_at": time_text(self.taken_at)}

    def to_json(self, *, indent: int | None = 2) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.as_dict(), indent=indent, ensure_ascii=False)

    def to_text(self) -> str:
        """Return the report as text tables."""
        return report_text(self)

    def draw(self, path: str | Path, *, theme: str | None = None) -> None:
        """Write the report as a picture, PNG or SVG by the file's suffix.

        Args:
            path: of the file.
            theme: light or dark. Default: a PNG is light, an SVG follows its reader's page.

        Raises:
            SourceError: an unknown suffix or theme, no matplotlib, or a file that cannot be written.
        """
        draw(self, path, theme=theme)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One flat row per partition: bounds and counts."""
        found = []
        for topic in self.topics:
            for each in topic.partitions:
                row: dict[str, Any] = {"topic": topic.topic, "partition": each.partition}
                row |= {name: getattr(each, name) for name in _BOUNDS}
                row |= {name: getattr(each.contents, name, None) for name in _COUNTS}
                found.append(row)
        return found

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return `rows` as a DataFrame."""
        columns = ["topic string", "partition int", *(f"{name} long" for name in (*_BOUNDS, *_COUNTS))]
        return spark.createDataFrame([tuple(row.values()) for row in self.rows], ", ".join(columns))

    def bucket_frame(self, spark: SparkSession) -> DataFrame:
        """Return records and bytes by topic, partition and day (or hour), as a DataFrame."""
        rows = [
            (topic.topic, each.partition, bucket.start, bucket.records, bucket.bytes)
            for topic in self.topics
            for each in topic.partitions
            if each.contents
            for bucket in each.contents.buckets
        ]
        return spark.createDataFrame(rows, f"topic string, partition int, {self.bucket} string, records long, bytes long")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def report(
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    *,
    bootstrap_servers: str | None = None,
    data_dir: str | None = None,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    starting: str | Position = "earliest",
    ending: str | Position = "latest",
    times: Sequence[int] = (),
    isolation_level: str = "read_committed",
    scan: bool = True,
    bucket: str = "day",
    gaps: int = DEFAULT_GAPS,
    now_ms: Callable[[], int] = _now_ms,
    client_config: Mapping[str, str] | None = None,
    connect: Connect | None = None,
) -> OffsetReport:
    """Return what topics hold, and how far groups have read them. docs/report.md has an example.

    Args:
        spark: the session that scans, or a function that starts it when needed; None with scan=False.
        bootstrap_servers: the cluster. Give this or data_dir.
        data_dir: a broker's log directory, or several with a comma between; no broker is needed.
        topics: their names. Default, without `pattern`: all topics that are not internal.
        pattern: a regular expression that whole names match.
        starting: where the scan starts (sources/positions.py); bounds and groups are always complete.
        ending: where it ends.
        times: epoch ms; the report has the first offset at or after each of them.
        isolation_level: read_committed counts committed records up to the last stable offset.
        scan: False reports only bounds, producers, transactions and groups, which is fast and needs no Spark.
        bucket: count records by day or by hour, in UTC.
        gaps: how many of the longest gaps of a partition to list; all gaps are counted.
        now_ms: the clock.
        client_config: how to connect by TLS and SASL: properties of Java's clients or librdkafka.
        connect: opens the connections of the driver's look-ups, instead of `client_config`.

    Raises:
        SourceError: no such topic or offsets, an invalid directory, or contradictory arguments.
        ClientError, KafkaError: no broker answers, or a broker rejects a request.
        CorruptLogError: a corrupt batch, with its position.
    """
    source = _source(bootstrap_servers, data_dir, isolation_level, client_config, connect)
    _check(bucket, gaps)
    resolved = source.resolve(
        topics, pattern=pattern if topics or pattern else ".*", starting=as_position(starting), ending=as_position(ending)
    )
    taken_at = now_ms()
    facts, notes = _facts(source, resolved, times)
    summaries: dict[tuple[str, int], RangeSummary] = {}
    if scan:
        from minibroker.spark.report.scan import scan as run_scan  # noqa: PLC0415  a report without a scan needs no PySpark

        session = spark() if callable(spark) else spark
        if session is None:
            raise SourceError("a scan needs a Spark session: give one, or scan=False")
        summaries = run_scan(session, source, resolved, bucket_ms=BUCKETS[bucket], gap_limit=gaps)
    return OffsetReport(
        source=bootstrap_servers or data_dir or "",
        cluster_id=resolved.cluster_id,
        isolation_level=isolation_level,
        taken_at=taken_at,
        bucket=bucket,
        is_scanned=scan,
        topics=_topics(resolved, facts, summaries, bucket, gaps),
        groups=facts.groups,
        transactions=facts.transactions,
        notes=tuple(notes),
    )


def _check(bucket: str, gaps: int) -> None:
    if bucket not in BUCKETS:
        raise SourceError(f"bucket must be {' or '.join(BUCKETS)}, got {bucket!r}")
    if gaps < 0:
        raise SourceError(f"gaps must be at least 0, got {gaps}")


def _source(
    bootstrap_servers: str | None,
    data_dir: str | None,
    isolation_level: str,
    client_config: Mapping[str, str] | None,
    connect: Connect | None,
) -> ClusterSource | LogDirectorySource:
    if (bootstrap_servers is None) == (data_dir is None):
        raise SourceError("give either bootstrap servers or a log directory")
    if isolation_level not in ISOLATION_LEVELS:
        raise SourceError(f"isolation_level must be {' or '.join(ISOLATION_LEVELS)}, got {isolation_level!r}")
    if bootstrap_servers is not None:
        return ClusterSource(bootstrap_servers, isolation_level=isolation_level, client_config=client_config, connect=connect)
    return LogDirectorySource(data_dir or "", isolation_level=isolation_level)


def _facts(source: ClusterSource | LogDirectorySource, resolved: ResolvedTopics, times: Sequence[int]) -> tuple[Facts, list[str]]:
    keys = [each[:2] for each in resolved.ranges]
    isolation = ISOLATION_LEVELS[source.isolation_level]
    if isinstance(source, ClusterSource):
        with source.client() as client:
            cluster = ClusterFacts(client, isolation=isolation)
            return cluster.collect(keys, times), cluster.notes
    directory = DirectoryFacts(RealFiles(), source.path, is_committed=isolation == READ_COMMITTED)
    return directory.collect(keys, times), directory.notes


def _topics(
    resolved: ResolvedTopics, facts: Facts, summaries: dict[tuple[str, int], RangeSummary], bucket: str, gap_limit: int
) -> tuple[TopicInfo, ...]:
    owners = {each.producer_id: each.transactional_id for each in facts.transactions}
    found = []
    for topic, topic_id in sorted(resolved.topic_ids.items()):
        is_compacted = facts.compacted.get(topic)
        partitions = []
        for key in (each[:2] for each in resolved.ranges if each.topic == topic):
            summary = summaries.get(key)
            contents = None if summary is None else _contents(summary, is_compacted is not False, bucket, gap_limit)
            partitions.append(_partition(key[1], facts.partitions[key], contents, owners))
        found.append(TopicInfo(topic, topic_id, is_compacted, tuple(partitions)))
    return tuple(found)


def _partition(number: int, facts: PartitionFacts, contents: Contents | None, owners: dict[int, str]) -> PartitionInfo:
    return PartitionInfo(
        partition=number,
        leader=facts.leader,
        **facts.bounds._asdict(),
        size=facts.size,
        max_timestamp=facts.largest.found_timestamp if facts.largest else None,
        max_timestamp_offset=facts.largest.offset if facts.largest else None,
        offsets_by_timestamp=facts.by_time,
        contents=contents,
        producers=tuple(
            ProducerInfo(
                each.producer_id,
                each.producer_epoch,
                _known(each.last_sequence),
                _known(each.last_timestamp),
                _known(each.coordinator_epoch),
                _known(each.current_txn_start_offset),
                owners.get(each.producer_id),
            )
            for each in facts.producers
        ),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _contents(summary: RangeSummary, is_compacted: bool, bucket: str, gap_limit: int) -> Contents:
    gap_count, runs = summary.all_gaps()
    has_time = summary.latest.offset >= 0
    return Contents(
        start_offset=summary.start_offset,
        end_offset=summary.end_offset,
        records=summary.record_count,
        bytes=summary.bytes,
        key_bytes=summary.key_bytes,
        value_bytes=summary.value_bytes,
        header_bytes=summary.header_bytes,
        batches=summary.batch_count,
        batch_bytes=summary.batch_bytes,
        codecs={_codec_name(codec): count for codec, count in sorted(summary.codecs.items())},
        control=summary.control_count,
        aborted=summary.aborted_count,
        compacted=summary.absent_count if is_compacted else 0,
        missing=0 if is_compacted else summary.absent_count,
        gap_count=gap_count,
        gaps=tuple(_gap(run, is_compacted) for run in longest(runs, gap_limit)),
        first_timestamp=None if summary.first_timestamp == NO_TIMESTAMP else summary.first_timestamp,
        last_timestamp=summary.latest.timestamp if has_time else None,
        last_timestamp_offset=summary.latest.offset if has_time else None,
        buckets=tuple(
            Bucket(None if number == NO_BUCKET else bucket_text(number, BUCKETS[bucket]), records, size)
            for number, (records, size) in sorted(summary.buckets.items())
        ),
        cell_size=cell_size(summary.end_offset - summary.start_offset),
        record_cells=summary.record_cells,
        aborted_cells=summary.aborted_cells,
    )


def _gap(run: Run, is_compacted: bool) -> Gap:
    absent = run.absent
    return Gap(run.first_offset, run.end_offset - 1, run.control, run.aborted, absent if is_compacted else 0, 0 if is_compacted else absent)


def _codec_name(codec: int) -> str:
    try:
        return Compression.of(codec).name.lower()
    except UnsupportedCompressionType:
        return str(codec)
