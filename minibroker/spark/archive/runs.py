"""Write one run of an archive in Parquet: records to staging, the commit to the manifest, the files to their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from minibroker.clock import Clock
from minibroker.spark.archive.manifest import ArchivedFile, ArchivedRange, ArchivedTopic, Gap, Identity, Run, StreamPlace, current
from minibroker.spark.archive.planning import check_ids
from minibroker.spark.archive.staging import Counted, Staged, StagedFile, stage, task_counts
from minibroker.spark.archive.store import ArchiveStore, Attempt, Recovered
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.ranges import COLUMNS, PartitionRange
from minibroker.spark.sources.source import RecordSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: makes the records of a run
MakeFrame = Callable[["SparkSession"], "DataFrame"]
#: makes the columns that a run adds to those of the records, by name
MakeColumns = Callable[[], Mapping[str, "Column"]]


class RunWriter:
    """Writes runs to an archive that the job has locked.

    Args:
        spark: the session.
        store: of the archive.
        identity: of the archive.
        source: returns the topic ids again after its records were read.
        compression: of the files.
        clock: for the times in the manifest.
        make_columns: called for each run that has records.
    """

    def __init__(
        self,
        spark: SparkSession,
        store: ArchiveStore,
        identity: Identity,
        source: RecordSource,
        *,
        compression: str,
        clock: Clock,
        make_columns: MakeColumns | None = None,
    ) -> None:
        self.spark = spark
        self.store = store
        self.identity = identity
        self.source = source
        self.compression = compression
        self.clock = clock
        self._make_columns = make_columns

    def recover(self) -> Recovered:
        """Finish or remove the runs of jobs that died."""
        return self.store.recover()

    def archived(self) -> tuple[ArchivedTopic, ...]:
        """Return the topics of the archive."""
        latest = self.store.latest()
        return latest.topics if latest else ()

    def write(
        self,
        topics: Sequence[ArchivedTopic],
        ranges: Sequence[PartitionRange],
        gaps: Sequence[Gap],
        make_frame: MakeFrame,
        *,
        stream: StreamPlace | None = None,
    ) -> Run:
        """Write and commit one run.

        Args:
            topics: of the plan; the manifest has what runs archived since then.
            ranges: to archive; none is archived already.
            gaps: to note in the manifest.
            make_frame: returns exactly the records of `ranges`.
            stream: the micro-batch of a streaming query.

        Raises:
            SourceError: nothing of the run was kept.
        """
        attempt = self.store.begin()
        topics = with_new(self.archived(), topics)
        started_ms = self.clock.now_ms()
        try:
            staged = self._stage(attempt, topics, ranges, make_frame)
            check_ids(topics, self.source.topic_ids(sorted({each.topic for each in ranges} | {gap.topic for gap in gaps})))
        except Exception:
            self.store.give_up(attempt)
            raise
        run = Run(
            number=attempt.number,
            run_id=attempt.run_id,
            source=str(self.source),
            isolation_level=self.identity.isolation_level,
            started_ms=started_ms,
            committed_ms=self.clock.now_ms(),
            ranges=archived_ranges(topics, ranges, staged.partitions),
            gaps=tuple(gaps),
            files=tuple(_archived_file(attempt, number, file) for number, file in enumerate(staged.files)),
            topics=topics_after(topics, ranges, gaps),
            stream=stream,
        )
        self.store.commit(attempt, run)
        return run

    def more_columns(self) -> Mapping[str, Column]:
        """Return the columns that a run adds; SourceError if a name is taken."""
        found = self._make_columns() if self._make_columns else {}
        taken = [name for name in found if name.lower() in {each.lower() for each in (*COLUMNS, "date")}]
        if taken:
            raise SourceError(f"an archive has a column {taken[0]}: give another name")
        return found

    def _stage(self, attempt: Attempt, topics: Sequence[ArchivedTopic], ranges: Sequence[PartitionRange], make_frame: MakeFrame) -> Staged:
        if not any(each.size for each in ranges):
            return Staged((), {})
        return stage(
            self.store.files,
            make_frame(self.spark),
            ranges,
            folders_of(topics),
            attempt.data,
            compression=self.compression,
            writing_tasks=task_counts(ranges, parallelism(self.spark))[1],
            more=self.more_columns(),
        )


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once."""
    return max(spark.sparkContext.defaultParallelism, 1)


def folders_of(topics: Sequence[ArchivedTopic]) -> dict[str, str]:
    """Return the folder name of each topic."""
    return {name: each.folder for name, each in current(topics).items()}


def archived_ranges(
    topics: Sequence[ArchivedTopic], ranges: Sequence[PartitionRange], partitions: Mapping[tuple[str, int], Counted]
) -> tuple[ArchivedRange, ...]:
    """Return the ranges, one per partition, with the figures of their records."""
    folders = folders_of(topics)
    found = []
    for each in ranges:
        counted = partitions.get((folders[each.topic], each.partition))
        found.append(ArchivedRange(*each, *counted) if counted else ArchivedRange(*each, 0, None, None))
    return tuple(found)


def with_new(archived: Sequence[ArchivedTopic], planned: Sequence[ArchivedTopic]) -> tuple[ArchivedTopic, ...]:
    """Return the archive's topics and the new ones of a plan, which may be older than the archive's last run."""
    known = {each.folder for each in archived}
    seen = {each.folder: each.ranges for each in planned}
    return (
        *(each.with_ranges(seen.get(each.folder, ())) for each in archived),
        *(each for each in planned if each.folder not in known),
    )


def topics_after(topics: Sequence[ArchivedTopic], ranges: Sequence[PartitionRange], gaps: Sequence[Gap]) -> tuple[ArchivedTopic, ...]:
    """Return the archive's topics after a run."""
    newest = current(topics)
    more = [*ranges, *(PartitionRange(*gap) for gap in gaps)]
    return tuple(
        each.with_ranges([one for one in more if one.topic == each.topic]) if each is newest[each.topic] else each for each in topics
    )


def _archived_file(attempt: Attempt, number: int, file: StagedFile) -> ArchivedFile:
    """Return the file with a path that no other run can have."""
    folder, _, name = file.path.rpartition("/")
    ending = name.partition(".")[2]
    ending = ending.partition(".")[2] if ending.startswith("c") and "." in ending and ending[1].isdigit() else ending
    return ArchivedFile(f"{folder}/part-{attempt.number:020d}-{number:05d}.{ending}", file.path, file.record_count, file.size)
