"""AlterReplicaLogDirs (key 34): move partitions to other log directories of this broker, while they are used.

Versions: 1 and 2; 2 is flexible. The answer comes when the move has begun; DescribeLogDirs shows the copy as a future log until it takes
the partition's place. A partition that moves already is sent to the newer destination; where it is now ends the move. A partition that does
not exist is UNKNOWN_TOPIC_OR_PARTITION, and is created in that directory later. Of a partition that is named in several directories, the
last one counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k34_alter_replica_log_dirs as schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.dispatch.slices import Steps

_PER_STEP: Final = 500  #: elements of a request or an answer that one step looks at


@handles(schema, has_long_answer=True)
def alter_replica_log_dirs(ctx: RequestContext, request: schema.Request) -> Any:
    """Answer each partition on its own."""
    return ctx.slices.run(_move_all(ctx, request))


def _move_all(ctx: RequestContext, request: schema.Request) -> Steps:
    wanted: dict[tuple[str, int], str] = {}
    for number, move in enumerate(_moves(request)):
        if move is not None:
            wanted[move[0]] = move[1]
        if number % _PER_STEP == 0:
            yield None
    codes: dict[tuple[str, int], int] = {}
    for key, path in wanted.items():
        codes[key] = _move(ctx, *key, path)
        yield None
    topics: dict[str, schema.TopicResult] = {}
    for number, ((name, index), code) in enumerate(codes.items()):
        topic = topics.get(name) or topics.setdefault(name, schema.TopicResult(topic_name=name, partitions=[]))
        topic.partitions.append(schema.PartitionResult(partition_index=index, error_code=code))
        if number % _PER_STEP == 0:
            yield None
    return schema.Response(results=list(topics.values()))


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
