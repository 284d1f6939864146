"""`follow`: archive what clients write, by a streaming query whose micro-batches are runs of the archive.

The manifest is the source of truth; the checkpoint holds Spark's plan. A batch is committed like any run, and is
recognised by its ranges. Spark repeats a batch if it does not know that the batch is done. If the archive already
reaches the batch's end, there is nothing to do.

Spark writes the files of a checkpoint:

    offsets/N        planned: "v1", a line about the query, and a line per source, {"flights": {"0": 23}}: the end of batch N
    commits/N        batch N is done
    sources/0/0      the start of the first batch of the Kafka source: a zero byte, "v1", {"flights": {"0": 0}}
    metadata         {"id": the query's id}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from pyspark.errors import StreamingQueryException

from minibroker.client.errors import ClientError
from minibroker.clock import Clock
from minibroker.errors import CorruptLogError, KafkaError
from minibroker.spark.archive.batch import open_writer
from minibroker.spark.archive.files import TableFiles, open_folder
from minibroker.spark.archive.manifest import PARQUET, ArchivedTopic, Run, StreamPlace, current
from minibroker.spark.archive.planning import Allowed, check_ids, plan
from minibroker.spark.archive.runs import MakeColumns, RunWriter, with_new
from minibroker.spark.archive.store import Recovered
from minibroker.spark.failures import SourceError
from minibroker.spark.sources.cluster import ClusterSource
from minibroker.spark.sources.positions import EARLIEST, Position, as_position
from minibroker.spark.sources.ranges import PartitionRange, ResolvedTopics
from minibroker.spark.sources.source import RecordSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Offsets = dict[tuple[str, int], int]  #: by topic and partition
AVAILABLE_NOW = "available-now"


class Batch(NamedTuple):
    """A micro-batch. A partition that is not in `start` starts at 0."""

    batch_id: int
    start: Offsets
    end: Offsets

    def ranges(self) -> tuple[PartitionRange, ...]:
        """Return the ranges of the batch, without empty ones."""
        found = (PartitionRange(*key, self.start.get(key, 0), end) for key, end in sorted(self.end.items()))
        return tuple(each for each in found if each.size > 0)


class Checkpoint:
    """The checkpoint of a streaming query, which has the offsets of each micro-batch.

    Args:
        files: its file system.
        path: the folder, which may be missing.
        initial: the start of the first batch, for a source that does not store it.
    """

    def __init__(self, files: TableFiles, path: str, initial: Offsets) -> None:
        self.files = files
        self.path = path
        self._initial = initial

    def latest(self) -> Batch | None:
        """Return the last planned batch; None if there is none."""
        planned = self._numbers("offsets")
        return self.batch(planned[-1]) if planned else None

    def batch(self, batch_id: int) -> Batch:
        """Return a recently planned batch; SourceError if the checkpoint is damaged."""
        start = self._offsets(batch_id - 1) if batch_id else self.first()
        return Batch(batch_id, start, self._offsets(batch_id))

    def is_committed(self, batch_id: int) -> bool:
        """Return whether Spark knows that the batch is done, and will not ask for it again."""
        return batch_id in self._numbers("commits")

    def query_id(self) -> str:
        """Return the query's id, which stays the same after restarts; "" if there is none yet."""
        try:
            found = json.loads(self.files.read(f"{self.path}/metadata"))["id"]
        except FileNotFoundError:
            return ""
        except (ValueError, KeyError, TypeError):
            raise self._damaged("metadata") from None
        return str(found)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self.files.names(f"{self.path}/{folder}") if name.isascii() and name.isdigit())

    def _offsets(self, batch_id: int) -> Offsets:
        return self._parsed(f"offsets/{batch_id}", line=2)

    def first(self) -> Offsets:
        """Return the start of the first batch; a partition that is missing started at 0."""
        try:
            return self._parsed("sources/0/0", line=1)
        except FileNotFoundError:
            return self._initial

    def _parsed(self, name: str, *, line: int) -> Offsets:
        lines = self.files.read(f"{self.path}/{name}").decode(errors="replace").lstrip("\0").splitlines()
        try:
            if lines[0] != "v1":
                raise self._damaged(name)
            found = json.loads(lines[line])
            return {(topic, int(partition)): int(offset) for topic, partitions in found.items() for partition, offset in partitions.items()}
        except (IndexError, ValueError, AttributeError, TypeError):
            raise self._damaged(name) from None

    def _damaged(self, name: str) -> SourceError:
        return SourceError(f"{self.path}/{name} is not a file of a checkpoint: it is damaged, or another version of Spark wrote it")


class ArchiveStream:
    """A running archive stream, which locks the archive until it has stopped; a context manager that stops it.

    Attributes:
        query: the streaming query.
        recovered: runs that an earlier job had not finished.
        runs: the runs committed so far.
    """

    def __init__(self, writer: RunWriter, held: ExitStack, recovered: Recovered) -> None:
        self.query: StreamingQuery | None = None
        self.recovered = recovered
        self.runs: list[Run] = []
        self._writer = writer
        self._held = held
        self._failure: Exception | None = None

    def wait(self, timeout_s: int | None = None) -> bool:
        """Wait for the end of the stream.

        Args:
            timeout_s: how long to wait. Default: without a limit.

        Returns:
            False on a time-out; the stream continues.

        Raises:
            SourceError: the archive refused a batch.
            StreamingQueryException: the query failed for another reason.
        """
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
        """Stop the stream; the next job removes what was not committed."""
        if self.query is not None:
            self.query.stop()
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _archive(self, checkpoint: Checkpoint, topics: Sequence[ArchivedTopic]) -> Callable[[DataFrame, int], None]:
        """Return the function that Spark calls with each batch."""

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
    columns: MakeColumns | None = None,
    clock: Clock | None = None,
) -> ArchiveStream:
    """Start a stream that archives topics as they grow.

    Args:
        spark: a session with the Kafka connector.
        source: the bootstrap servers of a cluster, a ClusterSource or a LogDirectorySource.
        path: of the archive; created if needed.
        topics: names.
        pattern: a regular expression for more names, among the topics that exist when the stream starts.
        starting: the start of partitions of which nothing is archived; others continue where the archive ends.
        trigger: the interval between batches, in Spark's form, or AVAILABLE_NOW, which archives what exists now and stops.
        checkpoint: a folder for the query's state. Default: one in the archive, which is replaced if other jobs have
            archived more.
        max_offsets_per_trigger: the most offsets in a batch.
        allow_gaps: start even if offsets were deleted before they were archived.
        allow_recreated: archive a topic that was deleted and recreated beside the old one.
        format: as for `archive`.
        compression: as for `archive`.
        columns: as for `archive`.
        clock: for the times in the manifest.

    Raises:
        SourceError: the stream cannot start. `wait` raises later errors.
    """
    source = ClusterSource(source) if isinstance(source, str) else source
    starting = as_position(starting)
    with ExitStack() as stack:
        writer = stack.enter_context(open_writer(spark, source, path, format=format, compression=compression, columns=columns, clock=clock))
        recovered = writer.recover()
        allowed = Allowed(gaps=allow_gaps, recreated=allow_recreated)
        before = writer.archived()
        there = source.resolve(topics, pattern=pattern)
        wanted, begins = _begin(writer, there, allowed, lambda names: source.resolve(names, starting=starting))
        files, where = open_folder(spark, checkpoint) if checkpoint else (writer.store.files, writer.store.checkpoint)
        state = Checkpoint(files, where, {each[:2]: each.start_offset for each in begins})
        # the checkpoint's offsets do not apply to a recreated topic
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
    """Return the archive's topics with the new ones, and the start of each partition. Note allowed gaps first."""
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
    """Return whether a stream can continue with this checkpoint. If not, it starts at the archive's end, which is as exact.

    Raises:
        SourceError: the checkpoint says that records were archived which the archive lacks; or it disagrees in another
            way and is the user's (not `is_ours`), so that it must not be removed.
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
            f"the checkpoint at {state.path} does not match the archive's end, or has other topics: other jobs have archived more; give "
            "another checkpoint folder, and the stream continues where the archive ends"
        )
    return False


def write_batch(writer: RunWriter, checkpoint: Checkpoint, topics: Sequence[ArchivedTopic], frame: DataFrame, batch_id: int) -> Run | None:
    """Archive a micro-batch; None if it was archived before or is empty. SourceError if it does not continue the archive."""
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
                "meanwhile; restart the stream"
            )
    check_ids(topics, writer.source.topic_ids(sorted({each.topic for each in ranges})))
    return writer.write(topics, ranges, (), lambda _: frame, stream=StreamPlace(checkpoint.query_id(), batch_id))


def _reached(archived: Mapping[str, ArchivedTopic], state: Checkpoint, batch: Batch) -> Offsets:
    """Return the archive's end for each partition of a batch; the stream's start if nothing of it is archived."""
    first = state.first()
    found = {}
    for key in batch.end:
        reached = archived[key[0]].reached(key[1]) if key[0] in archived else None
        found[key] = first.get(key, 0) if reached is None else reached
    return found


def _starts(batch: Batch) -> Offsets:
    return {key: batch.start.get(key, 0) for key in batch.end}
