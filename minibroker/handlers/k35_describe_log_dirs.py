"""DescribeLogDirs (key 35): the directories of log.dirs with the partitions and bytes in them.

Versions: 0 to 5; 2 is flexible, 3 adds an error code of the response, 4 the size of the volume, 5
whether a directory takes new partitions. Topics: null requests all. Requested partitions that do
not exist are left out, so an empty list returns only the directories. Directories without any of
the partitions are listed. Sizes are bytes of `.log` files. The metadata log is not listed. Offline
partitions are not listed either, because their size is unknown. KAFKA_STORAGE_ERROR: the directory
is offline, or its volume cannot be read. A new partition whose log was not opened yet has 0 bytes.
Partitions that are created or deleted while many are listed may be missing. A moving partition is
listed in its destination as well, as a future log with the bytes copied so far. Its offset_lag
counts the offsets from the first segment that is not copied completely. Not done: cordoned
directories (KIP-1066), so is_cordoned is always false.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from minibroker.cluster.directories.log_directory import LogDirectory
from minibroker.cluster.partition import Partition
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps, in_order
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k35_describe_log_dirs as schema

_STEP: Final = 500  #: partitions that are looked up between two pauses

RequestedPartitions = dict[str, set[int]]  #: requested partitions of each topic


@handles(schema, has_long_answer=True)
def describe_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Describe each directory."""
    return ctx.broker.slices.run(_answer(ctx, request))


def _answer(ctx: RequestContext, request: schema.Request) -> Steps:
    requested = None if request.topics is None else (yield from _requested(ctx, request.topics))
    results = []
    for directory in ctx.cluster.log_directories:
        topics: dict[str, schema.TopicResult] = {}
        yield from _describe_logs(ctx, directory, requested, topics)
        yield from _describe_copies(ctx, directory, requested, topics)
        results.append(_describe(directory, list(topics.values())))
    return schema.Response(results=results)


def _requested(ctx: RequestContext, topics: Sequence[schema.Topic]) -> Generator[None, None, RequestedPartitions]:
    """Collect the partitions that exist."""
    requested: RequestedPartitions = {}
    for topic in topics:
        known = ctx.cluster.topics.get(topic.topic)
        count = 0 if known is None else len(known.partitions)
        for start in range(0, len(topic.partitions), _STEP) if count else ():
            indexes = requested.setdefault(topic.topic, set())
            indexes.update(index for index in topic.partitions[start : start + _STEP] if 0 <= index < count)
            yield
        yield
    return requested


def _describe(directory: LogDirectory, topics: list[schema.TopicResult]) -> schema.LogDirResult:
    try:
        if directory.offline_cause is not None:
            raise directory.offline_cause
        total_bytes, usable_bytes = directory.volume_bytes()
    except OSError:
        return schema.LogDirResult(error_code=KafkaStorageError.code, log_dir=directory.absolute_path, topics=[])
    return schema.LogDirResult(
        error_code=0, log_dir=directory.absolute_path, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )


def _describe_logs(
    ctx: RequestContext, directory: LogDirectory, requested: RequestedPartitions | None, results: dict[str, schema.TopicResult]
) -> Generator[None, None, None]:
    """Add the partitions in a directory. Skip those deleted during a pause."""
    names = yield from in_order(list(ctx.cluster.topics) if requested is None else requested)
    for name in names:
        topic = ctx.cluster.topics.get(name)
        partitions: Sequence[Partition] = () if topic is None else topic.partitions
        if requested is not None:
            partitions = [partitions[index] for index in sorted(requested[name]) if index < len(partitions)]
        for start in range(0, len(partitions), _STEP):
            sizes = [(each.index, _size(directory, each)) for each in partitions[start : start + _STEP]]
            found = [
                schema.PartitionResult(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
                for index, size in sizes
                if size is not None
            ]
            if found:
                _of_topic(results, name).partitions.extend(found)
            yield


def _size(directory: LogDirectory, partition: Partition) -> int | None:
    """Return the size of a partition's log in a directory; None if the directory does not have it."""
    log = directory.logs.get((partition.topic, partition.index))
    if log is not None:
        return log.segments.size
    return 0 if partition.is_unopened and partition.directory_id == directory.directory_id else None


def _describe_copies(
    ctx: RequestContext, directory: LogDirectory, requested: RequestedPartitions | None, results: dict[str, schema.TopicResult]
) -> Generator[None, None, None]:
    """Add the copies of partitions that move to a directory."""
    keys = sorted(ctx.cluster.logs.future_logs(directory))
    for start in range(0, len(keys), _STEP):
        copies = ctx.cluster.logs.future_logs(directory)  # some moves may have finished during the pause
        for topic, index in keys[start : start + _STEP]:
            copy = copies.get((topic, index))
            if copy is not None and (requested is None or index in requested.get(topic, ())):
                lag = copy.log.log_end_offset - copy.end_offset
                result = schema.PartitionResult(partition_index=index, partition_size=copy.size, offset_lag=lag, is_future_key=True)
                _of_topic(results, topic).partitions.append(result)
        yield


def _of_topic(results: dict[str, schema.TopicResult], name: str) -> schema.TopicResult:
    result = results.get(name)
    if result is None:
        result = results[name] = schema.TopicResult(name=name, partitions=[])
    return result
