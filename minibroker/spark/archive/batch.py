"""`archive`: archive the offsets that exist now, in one run or several, each offset exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minibroker.clock import Clock, WallClock
from minibroker.spark.archive.delta import DeltaRunWriter
from minibroker.spark.archive.files import open_folder
from minibroker.spark.archive.manifest import DELTA, PARQUET, Run
from minibroker.spark.archive.planning import OVERLAPS, Allowed, Plan, plan, portions
from minibroker.spark.archive.runs import MakeColumns, MakeFrame, RunWriter, parallelism
from minibroker.spark.archive.staging import COMPRESSIONS, task_counts
from minibroker.spark.archive.store import ArchiveStore, Recovered
from minibroker.spark.failures import SourceError
from minibroker.spark.progress import phase
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.log_directory import LogDirectorySource
from minibroker.spark.sources.positions import EARLIEST, LATEST, Position, as_position
from minibroker.spark.sources.ranges import PartitionRange, layers
from minibroker.spark.sources.source import RecordSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITERS: Mapping[str, type[RunWriter]] = {PARQUET: RunWriter, DELTA: DeltaRunWriter}
OFFSETS_PER_RUN = 50_000_000  #: a job that dies loses one run


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The result of `archive`.

    Attributes:
        path: of the archive.
        runs: the committed runs, with their ranges, gaps and files; empty if there was nothing new.
        recovered: runs that an earlier job had not finished.
        skipped: requested ranges that were archived already.
    """

    path: str
    runs: tuple[Run, ...]
    recovered: Recovered
    skipped: tuple[PartitionRange, ...]

    @property
    def record_count(self) -> int:
        """The archived records."""
        return sum(run.record_count for run in self.runs)

    @property
    def size(self) -> int:
        """Bytes of the written files."""
        return sum(run.size for run in self.runs)


def archive(
    spark: SparkSession,
    source: RecordSource | str,
    path: str,
    topics: Sequence[str] = (),
    *,
    pattern: str | None = None,
    starting: Position | str | None = None,
    ending: Position | str = LATEST,
    overlap: str = "error",
    allow_gaps: bool = False,
    allow_recreated: bool = False,
    format: str = PARQUET,  # noqa: A002  Spark's name
    compression: str = "zstd",
    offsets_per_run: int = OFFSETS_PER_RUN,
    columns: MakeColumns | None = None,
    clock: Clock | None = None,
) -> ArchiveResult:
    """Archive topics up to their ends.

    Args:
        spark: a session with the Kafka connector; see session.kafka_session.
        source: the bootstrap servers of a cluster, a ClusterSource or a LogDirectorySource.
        path: a folder on any file system that Spark writes to; created if needed.
        topics: names.
        pattern: a regular expression for more names.
        starting: archive exactly the range from here. Default: each partition continues where the archive ends, or
            starts at its log start.
        ending: the offset after the last one, a time, or the ends of the partitions.
        overlap: what to do with offsets that are archived already: `error` or `skip`.
        allow_gaps: continue even if offsets were deleted before they were archived.
        allow_recreated: archive a topic that was deleted and recreated beside the old one.
        format: `parquet`, or `delta`, which needs a session with Delta Lake.
        compression: one of zstd, snappy, lz4, gzip, none.
        offsets_per_run: the most offsets of a run; more offsets become several runs, each with its commit.
        columns: returns more columns by name, such as decoded values; called for each run.
        clock: for the times in the manifest.

    Raises:
        SourceError: the request is invalid or cannot be fulfilled. Only the runs committed before were archived.
    """
    source = ClusterSource(source) if isinstance(source, str) else source
    starting = None if starting is None else as_position(starting)
    ending = as_position(ending)
    if overlap not in OVERLAPS:
        raise SourceError(f"overlap must be {' or '.join(OVERLAPS)}, got {overlap!r}")
    if offsets_per_run < 1:
        raise SourceError(f"offsets_per_run must be at least 1, got {offsets_per_run}")
    allowed = Allowed(gaps=allow_gaps, recreated=allow_recreated, overlap=overlap)
    with open_writer(spark, source, path, format=format, compression=compression, columns=columns, clock=clock) as writer:
        recovered = writer.recover()
        # after the lock and the recovery, so that all runs of other jobs are known
        resolved = source.resolve(topics, pattern=pattern, starting=starting or EARLIEST, ending=ending)
        planned = plan(writer.archived(), resolved, allowed, is_continuing=starting is None, is_to_the_end=ending == LATEST)
        runs = tuple(_run_all(writer, planned, offsets_per_run))
        return ArchiveResult(writer.store.path, runs, recovered, planned.skipped)


@contextmanager
def open_writer(
    spark: SparkSession,
    source: RecordSource,
    path: str,
    *,
    format: str,  # noqa: A002  Spark's name
    compression: str,
    columns: MakeColumns | None,
    clock: Clock | None,
) -> Iterator[RunWriter]:
    """Yield the writer of the archive at `path`, created if needed and locked; SourceError if that is not possible."""
    if compression not in COMPRESSIONS:
        raise SourceError(f"compression must be one of {', '.join(COMPRESSIONS)}, got {compression!r}")
    if format not in WRITERS:
        raise SourceError(f"format must be {' or '.join(WRITERS)}, got {format!r}")
    if isinstance(source, LogDirectorySource) and source.is_permissive:
        raise SourceError("mode=PERMISSIVE skips corrupt batches, which the archive could not record: archive without it")
    files, full = open_folder(spark, path)
    store = ArchiveStore(files, full)
    store.check_folder()
    with files.lock(store.lock_path):
        identity = store.open(format, source.isolation_level)
        writer = WRITERS[format]
        yield writer(spark, store, identity, source, compression=compression, clock=clock or WallClock(), make_columns=columns)


def _run_all(writer: RunWriter, planned: Plan, offsets_per_run: int) -> Iterator[Run]:
    """Write one run after the other, each with at most one range per partition; the first run notes the gaps."""
    parts = [part for layer in layers(planned.ranges) for part in portions(layer, offsets_per_run)] or ([()] if planned.gaps else [])
    for number, ranges in enumerate(parts):
        with phase(f"archiving, run {number + 1} of {len(parts)}" if len(parts) > 1 else "archiving"):
            yield writer.write(planned.topics_seen(), ranges, planned.gaps if number == 0 else (), _reading(writer.source, ranges))


def _reading(source: RecordSource, ranges: Sequence[PartitionRange]) -> MakeFrame:
    return lambda spark: source.frame(spark, ranges, min_partitions=task_counts(ranges, parallelism(spark))[0])
