"""DescribeLogDirs (key 35): the log directories, the size of each partition in them, and the room that is left.

Versions: 1 to 5; 2 is flexible, 4 answers with the volume's bytes, 5 says whether a directory is cordoned (never).
`topics` null asks for all; partitions that are not here are left out, as in Apache Kafka. offset_lag is 0: there are no copies.
"""

from __future__ import annotations

from collections import defaultdict

from minibroker.cluster.log_directory import LogDirectory
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.schemas import k35_describe_log_dirs as schema

Wanted = dict[str, set[int]]


@handles(schema)
def describe_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Answer with every directory, also with those that hold nothing of what was asked for."""
    wanted = None if request.topics is None else _wanted(request.topics)
    return schema.Response(results=[_describe(directory, wanted) for directory in ctx.cluster.log_directories])


def _wanted(topics: list[schema.Topic]) -> Wanted:
    wanted: Wanted = defaultdict(set)
    for topic in topics:
        wanted[topic.topic].update(topic.partitions)
    return wanted


def _describe(directory: LogDirectory, wanted: Wanted | None) -> schema.LogDirResult:
    topics: dict[str, list[schema.PartitionResult]] = defaultdict(list)
    for (topic, index), log in directory.logs.items():
        if wanted is None or index in wanted.get(topic, ()):
            topics[topic].append(schema.PartitionResult(partition_index=index, partition_size=log.size, offset_lag=0, is_future_key=False))
    total_bytes, usable_bytes = directory.volume_bytes()
    return schema.LogDirResult(
        error_code=0,
        log_dir=directory.absolute_path,
        topics=[schema.TopicResult(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
