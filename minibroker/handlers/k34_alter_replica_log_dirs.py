"""AlterReplicaLogDirs (key 34): move partitions to other log directories of this broker while they are in use.

Versions: 1 and 2; 2 is flexible. The response is sent when the moves have started. Until a copy
replaces its partition, DescribeLogDirs lists it as a future log. A partition that is already moving
is redirected to the new destination; its current directory cancels the move. A partition that does
not exist is UNKNOWN_TOPIC_OR_PARTITION, and will be created in that directory. If a request has
several directories for one partition, the last one is used.
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

_STEP: Final = 500  #: elements of a request examined between two pauses


@handles(schema, has_long_answer=True)
def alter_replica_log_dirs(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Start to move each partition."""
    return ctx.broker.slices.run(_move_all(ctx, request))


def _move_all(ctx: RequestContext, request: schema.Request) -> Steps:
    targets: dict[tuple[str, int], str] = {}
    for number, move in enumerate(_moves(request)):
        if move is not None:
            targets[move[0]] = move[1]
        if number % _STEP == _STEP - 1:
            yield None
    results: dict[str, schema.TopicResult] = {}
    for (topic, index), path in targets.items():
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
