"""DescribeLogDirs (key 35): the directories of log.dirs with the partitions and bytes in them.

Versions: 0 to 5; 2 is flexible, 3 has an error code for the whole, 4 tells of the volume, 5 whether a directory takes new partitions.
Topics: null asks for all; otherwise those partitions that are there are answered and others left out, so that an empty list gives the
directories alone. Every directory is answered, also one without any of them. Sizes are bytes of `.log` files. The metadata log is not
listed; nor is a partition that is offline: nobody knows its size. A directory that is offline, or whose volume cannot be read, is
KAFKA_STORAGE_ERROR.
Not done: cordoned directories (KIP-1066), so is_cordoned is always false; moves between directories, so there are no future logs, and
offset_lag is 0.
"""

from __future__ import annotations

from minibroker.cluster.log_directory import LogDirectory
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaStorageError
from minibroker.schemas import k35_describe_log_dirs as schema

Wanted = set[tuple[str, int]]  #: topic and partition index


@handles(schema)
def describe_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer each directory on its own."""
    wanted = None if request.topics is None else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    ctx.cluster.finish_opening()
    return schema.Response(results=[_describe(directory, wanted) for directory in ctx.cluster.log_directories])


def _describe(directory: LogDirectory, wanted: Wanted | None) -> schema.LogDirResult:
    try:
        if directory.offline_cause is not None:
            raise directory.offline_cause
        total_bytes, usable_bytes = directory.volume_bytes()
    except OSError:
        return schema.LogDirResult(error_code=KafkaStorageError.code, log_dir=directory.absolute_path, topics=[])
    return schema.LogDirResult(
        error_code=0,
        log_dir=directory.absolute_path,
        topics=_topics(directory, wanted),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _topics(directory: LogDirectory, wanted: Wanted | None) -> list[schema.TopicResult]:
    topics: dict[str, list[schema.PartitionResult]] = {}
    for topic, index in sorted(directory.logs if wanted is None else wanted.intersection(directory.logs)):
        topics.setdefault(topic, []).append(
            schema.PartitionResult(
                partition_index=index, partition_size=directory.logs[topic, index].size, offset_lag=0, is_future_key=False
            )
        )
    return [schema.TopicResult(name=name, partitions=partitions) for name, partitions in topics.items()]
