"""DescribeLogDirs (key 35): the directories of log.dirs with the partitions and bytes in them.

Versions: 0 to 5; 2 is flexible, 3 has an error code for the whole, 4 tells of the volume, 5 whether a directory takes new partitions.
Topics: null asks for all; otherwise those partitions that are there are answered and others left out, so that an empty list gives the
directories alone. Every directory is answered, also one without any of them. Sizes are bytes of `.log` files. The metadata log is not
listed; nor is a partition that is offline: nobody knows its size. A directory that is offline, or whose volume cannot be read, is
KAFKA_STORAGE_ERROR.
A partition that moves is listed in its destination as well, as a future log with what was copied; its offset_lag counts the offsets from
the first segment that is not copied whole.
Not done: cordoned directories (KIP-1066), so is_cordoned is always false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minibroker.cluster.log_directory import LogDirectory
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k35_describe_log_dirs as schema

if TYPE_CHECKING:
    from minibroker.log.copying import LogCopy
    from minibroker.log.partition_log import PartitionLog

_STEP: Final = 1000  #: partitions that are looked up between two pauses

Wanted = set[tuple[str, int]]  #: topic and partition index


@handles(schema)
def describe_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Answer each directory on its own."""
    if request.topics is None:
        return _answer(ctx, None)
    answer: schema.Response | Delayed = ctx.slices.run(_answer_some(ctx, request.topics))
    return answer


def _answer_some(ctx: RequestContext, topics: Sequence[schema.Topic]) -> Steps:
    """Collect the partitions that exist, then answer."""
    wanted: Wanted = set()
    for topic in topics:
        known = ctx.cluster.topics.get(topic.topic)
        count = 0 if known is None else len(known.partitions)
        for start in range(0, len(topic.partitions), _STEP) if count else ():
            wanted.update((topic.topic, index) for index in topic.partitions[start : start + _STEP] if 0 <= index < count)
            yield None
        yield None
    return _answer(ctx, wanted)


def _answer(ctx: RequestContext, wanted: Wanted | None) -> schema.Response:
    ctx.cluster.finish_opening()
    return schema.Response(results=[_describe(ctx, directory, wanted) for directory in ctx.cluster.log_directories])


def _describe(ctx: RequestContext, directory: LogDirectory, wanted: Wanted | None) -> schema.LogDirResult:
    try:
        if directory.offline_cause is not None:
            raise directory.offline_cause
        total_bytes, usable_bytes = directory.volume_bytes()
    except OSError:
        return schema.LogDirResult(error_code=KafkaStorageError.code, log_dir=directory.absolute_path, topics=[])
    return schema.LogDirResult(
        error_code=0,
        log_dir=directory.absolute_path,
        topics=_topics(directory.logs, ctx.cluster.future_logs(directory), wanted),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _topics(
    logs: Mapping[tuple[str, int], PartitionLog], future_logs: Mapping[tuple[str, int], LogCopy], wanted: Wanted | None
) -> list[schema.TopicResult]:
    topics: dict[str, list[schema.PartitionResult]] = {}
    for topic, index in sorted(logs if wanted is None else wanted.intersection(logs)):
        size = logs[topic, index].size
        result = schema.PartitionResult(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
        topics.setdefault(topic, []).append(result)
    for topic, index in sorted(future_logs if wanted is None else wanted.intersection(future_logs)):
        copy = future_logs[topic, index]
        lag = copy.log.log_end_offset - copy.end_offset
        result = schema.PartitionResult(partition_index=index, partition_size=copy.size, offset_lag=lag, is_future_key=True)
        topics.setdefault(topic, []).append(result)
    return [schema.TopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
