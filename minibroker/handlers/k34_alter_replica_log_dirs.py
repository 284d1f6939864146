"""AlterReplicaLogDirs (key 34): move partitions to other log directories of this broker, while they are used.

Versions: 1 and 2; 2 is flexible. The answer comes when the move has begun; DescribeLogDirs shows the copy as a future log until it takes
the partition's place. A partition that moves already is sent to the newer destination; where it is now ends the move. A partition that does
not exist is UNKNOWN_TOPIC_OR_PARTITION, and is created in that directory later. Of a partition that is named in several directories, the
last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.errors import KafkaError
from minibroker.schemas import k34_alter_replica_log_dirs as schema

_STEP: Final = 500  #: elements of a request that are looked at between two pauses


@handles(schema, has_long_answer=True)
def alter_replica_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Answer each partition on its own."""
    return ctx.broker.slices.run(_move_all(ctx, request))


def _move_all(ctx: RequestContext, request: schema.Request) -> Steps:
    wanted: dict[tuple[str, int], str] = {}
    for number, move in enumerate(_moves(request)):
        if move is not None:
            wanted[move[0]] = move[1]
        if number % _STEP == _STEP - 1:
            yield None
    results: dict[str, schema.TopicResult] = {}
    for (topic, index), path in wanted.items():
        if topic not in results:
            results[topic] = schema.TopicResult(topic_name=topic, partitions=[])
        code = _move(ctx, topic, index, path)
        results[topic].partitions.append(schema.PartitionResult(partition_index=index, error_code=code))
        yield None
    return schema.Response(results=list(results.values()))


def _moves(request: schema.Request) -> Iterator[tuple[tuple[str, int], str] | None]:
    """Yield ((topic, partition), directory) for each partition, and None for each directory and each topic."""
    for directory in request.dirs:
        yield None
        for topic in directory.topics:
            yield None
            for index in topic.partitions:
                yield (topic.name, index), directory.path


def _move(ctx: RequestContext, topic: str, index: int, path: str) -> int:
    try:
        ctx.cluster.move_replica(topic, index, path)
    except KafkaError as error:
        return error.code
    return 0
