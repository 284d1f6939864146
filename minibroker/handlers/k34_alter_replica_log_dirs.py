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
    from minibroker.dispatch.slices import Steps

_FEW: Final = 8  #: partitions whose copies are begun at once: each is a folder and a synced file


@handles(schema)
def alter_replica_log_dirs(ctx: RequestContext, request: schema.Request) -> Any:
    """Answer each partition on its own."""
    wanted = {(topic.name, index): each.path for each in request.dirs for topic in each.topics for index in topic.partitions}
    if len(wanted) <= _FEW:
        return _answer({key: _move(ctx, *key, path) for key, path in wanted.items()})
    return ctx.slices.run(_move_many(ctx, wanted))


def _move_many(ctx: RequestContext, wanted: dict[tuple[str, int], str]) -> Steps:
    codes = {}
    for key, path in wanted.items():
        codes[key] = _move(ctx, *key, path)
        yield None
    return _answer(codes)


def _move(ctx: RequestContext, topic: str, index: int, path: str) -> int:
    try:
        ctx.cluster.move_replica(topic, index, path)
    except KafkaError as error:
        return error.code
    return 0


def _answer(codes: dict[tuple[str, int], int]) -> schema.Response:
    topics: dict[str, list[schema.PartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(schema.PartitionResult(partition_index=index, error_code=code))
    return schema.Response(results=[schema.TopicResult(topic_name=name, partitions=partitions) for name, partitions in topics.items()])
