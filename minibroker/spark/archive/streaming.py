"""Archiving what comes: a streaming query whose micro-batches are runs of the archive.

The manifest is the truth; the checkpoint says what Spark plans. A batch is archived by the same commit as any run, and is known by its
ranges: Spark asks again for a batch of which it does not know that it was done, and when the archive has its end, there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyspark.errors import StreamingQueryException

from minibroker.client.errors import ClientError
from minibroker.clock import Clock
from minibroker.errors import CorruptLogError, KafkaError
from minibroker.spark.archive.batch import open_writer
from minibroker.spark.archive.checkpoint import Batch, Checkpoint, Offsets
from minibroker.spark.archive.hadoop_files import open_folder
from minibroker.spark.archive.manifest import PARQUET, ArchivedTopic, Run, StreamPlace, current
from minibroker.spark.archive.planning import Allowed, check_ids, plan
from minibroker.spark.archive.runs import RunWriter, with_new
from minibroker.spark.archive.store import Recovered
from minibroker.spark.errors import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.positions import EARLIEST, Position, as_position
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics
from minibroker.spark.sources.source import RecordSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

AVAILABLE_NOW = "available-now"


class ArchiveStream:
    """A stream that archives, with the archive locked until it has ended; a context manager that stops it.

    Attributes:
        query: Spark's.
        recovered: what an earlier job had left.
        runs: those that it has committed so far.
    """

    def __init__(self, writer: RunWriter, held: ExitStack, recovered: Recovered) -> None:
        self.query: StreamingQuery | None = None
        self.recovered = recovered
        self.runs: list[Run] = []
        self._writer = writer
        self._held = held
        self._failure: Exception | None = None

    def wait(self, timeout_s: int | None = None) -> bool:
        """Wait for its end; False when the time was over before. SourceError, or what Spark says, when it failed."""
        if self.query is None:
            return True
        try:
            ended = self.query.awaitTermination() if timeout_s is None else self.query.awaitTermination(timeout_s)
        except StreamingQueryException:
            self._held.close()
            if self._failure is not None:
                raise self._failure from None
            raise
        if timeout_s is not None and not ended:
            return False
        self._held.close()
        return True

    def stop(self) -> None:
        """End it between two steps of Spark's; what was not committed is removed by the next job."""
        if self.query is not None:
            self.query.stop()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _archive(self, checkpoint: Checkpoint, topics: Sequence[ArchivedTopic]) -> Callable[[DataFrame, int], None]:
        """What Spark calls with each batch."""

        def archive_batch(frame: DataFrame, batch_id: int) -> None:
            try:
                run = write_batch(self._writer, checkpoint, topics, frame, batch_id)
            except (SourceError, ClientError, KafkaError, CorruptLogError) as error:
                self._failure = error
                raise
            if run is not None:
                self.runs.append(run)

        return archive_batch


def follow(
    spark: SparkSession,
    source: RecordSource | str,
    path: str,
    topics: Sequence[str] = (),
    *,
    pattern: str | None = None,
    starting: Position | str = EARLIEST,
    trigger: str = "10 seconds",
    checkpoint: str | None = None,
    max_offsets_per_trigger: int | None = None,
    allow_gaps: bool = False,
    allow_recreated: bool = False,
    format: str = PARQUET,  # noqa: A002  Spark's name
    compression: str = "zstd",
    clock: Clock | None = None,
) -> ArchiveStream:
    """Start to archive topics as they grow.

    Args:
        spark: a session that has the Kafka connector.
        source: the bootstrap servers of a cluster, a ClusterSource or a LogDirectorySource.
        path: of the archive; made if needed.
        topics: names.
        pattern: a regular expression for more names; of the topics that are there when the stream starts.
        starting: where partitions begin of which nothing is archived; the others go on where the archive ends.
        trigger: so often a batch, as Spark has it; or AVAILABLE_NOW, which ends when what there is now is archived.
        checkpoint: a folder for the query's state; without it, one within the archive, which begins anew when other jobs archived more.
        max_offsets_per_trigger: so many offsets a batch at most.
        allow_gaps: begin although offsets were deleted before they were archived.
        allow_recreated: archive a topic that was deleted and created anew beside the old one.
        format: as for `archive`.
        compression: as for `archive`.
        clock: the time for the manifest.

    Raises:
        SourceError: the stream cannot be started as asked. What stops it later is raised by `wait`.
    """
    source = ClusterSource(source) if isinstance(source, str) else source
    starting = as_position(starting)
    with ExitStack() as stack:
        writer = stack.enter_context(open_writer(spark, source, path, format=format, compression=compression, clock=clock))
        recovered = writer.recover()
        allowed = Allowed(gaps=allow_gaps, recreated=allow_recreated)
        before = writer.archived()
        there = source.resolve(topics, pattern=pattern)
        wanted, begins = _begin(writer, there, allowed, lambda names: source.resolve(names, starting=starting))
        files, where = open_folder(spark, checkpoint) if checkpoint else (writer.store.files, writer.store.checkpoint)
        state = Checkpoint(files, where, {each[:2]: each.start_offset for each in begins})
        # the offsets of a topic that was created anew are not those of the checkpoint
        recreated = {each.topic for each in wanted if each not in before and each.folder != each.topic and not each.ranges}
        if not agrees(state, current(wanted), frozenset(there.topic_ids) - recreated, is_ours=checkpoint is None):
            files.remove(where)
        stream = ArchiveStream(writer, stack.pop_all(), recovered)
        frame = source.stream(spark, begins, max_offsets_per_trigger=max_offsets_per_trigger)
        writing = frame.writeStream.foreachBatch(stream._archive(state, wanted)).option("checkpointLocation", files.url(where))  # noqa: SLF001  its own
        writing = writing.trigger(availableNow=True) if trigger == AVAILABLE_NOW else writing.trigger(processingTime=trigger)
        try:
            stream.query = writing.start()
        except Exception:
            stream.stop()
            raise
        return stream


def _begin(
    writer: RunWriter, there: ResolvedTopics, allowed: Allowed, resolve: Callable[[Sequence[str]], ResolvedTopics]
) -> tuple[tuple[ArchivedTopic, ...], tuple[PartitionRange, ...]]:
    """The archive's topics with those that are new, and where each partition begins. Gaps that are allowed are noted first."""
    wanted = plan(writer.archived(), there, allowed, is_continuing=True)
    topics = wanted.topics
    if wanted.gaps:
        topics = writer.write(topics, (), wanted.gaps, lambda spark: spark.range(0)).topics
    newest = current(topics)
    starts = {each[:2]: each.start_offset for each in resolve(sorted(there.topic_ids)).ranges}
    found = []
    for each in there.ranges:
        reached = newest[each.topic].reached(each.partition)
        found.append(each._replace(start_offset=starts.get(each[:2], each.start_offset) if reached is None else reached))
    return topics, tuple(found)


def agrees(state: Checkpoint, archived: Mapping[str, ArchivedTopic], topics: frozenset[str], *, is_ours: bool) -> bool:
    """Whether a stream can go on with this checkpoint; False: it is to begin anew, at the end of the archive, which is as exact.

    SourceError when the checkpoint says that something was archived that the archive has not; and when it disagrees in another way, and
    is not ours to remove.
    """
    batch = state.latest()
    if batch is None:
        return True
    is_done = state.is_committed(batch.batch_id)
    reached = _reached(archived, state, batch)
    for key, end in batch.end.items():
        if key[0] not in topics:
            continue
        least = end if is_done else batch.start.get(key, 0)
        if reached[key] < least:
            raise SourceError(
                f"the checkpoint at {state.path} says that {key[0]}-{key[1]} was archived up to offset {least}, and the archive has it up "
                f"to {reached[key]}: is it the checkpoint of another archive, or was a part of this one removed?"
            )
    if {key[0] for key in batch.end} == topics and (reached == batch.end or (not is_done and reached == _starts(batch))):
        return True
    if not is_ours:
        raise SourceError(
            f"the checkpoint at {state.path} is not where the archive ends, or of other topics: other jobs have archived more; take "
            "another checkpoint folder, the stream then goes on where the archive ends"
        )
    return False


def write_batch(writer: RunWriter, checkpoint: Checkpoint, topics: Sequence[ArchivedTopic], frame: DataFrame, batch_id: int) -> Run | None:
    """Archive a micro-batch; None when it was done already, or nothing is in it. SourceError when it does not fit to the archive."""
    batch = checkpoint.batch(batch_id)
    ranges = batch.ranges()
    topics = with_new(writer.archived(), topics)
    newest = current(topics)
    reached = _reached(newest, checkpoint, batch)
    if all(reached[each[:2]] == each.end_offset for each in ranges):
        return None
    for each in ranges:
        if reached[each[:2]] != each.start_offset:
            raise SourceError(
                f"batch {batch_id} of the stream has {each}, but the archive ends at {reached[each[:2]]}: another job has archived "
                "meanwhile; start the stream again"
            )
    check_ids(topics, writer.source.topic_ids(sorted({each.topic for each in ranges})))
    return writer.write(topics, ranges, (), lambda _: frame, stream=StreamPlace(checkpoint.query_id(), batch_id))


def _reached(archived: Mapping[str, ArchivedTopic], state: Checkpoint, batch: Batch) -> Offsets:
    """Where the archive ends, for each partition of a batch; where the stream began, if nothing of it was archived."""
    first = state.first()
    found = {}
    for key in batch.end:
        reached = archived[key[0]].reached(key[1]) if key[0] in archived else None
        found[key] = first.get(key, 0) if reached is None else reached
    return found


def _starts(batch: Batch) -> Offsets:
    return {key: batch.start.get(key, 0) for key in batch.end}
