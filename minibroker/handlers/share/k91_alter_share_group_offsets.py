"""AlterShareGroupOffsets (key 91): set the start offsets of a share group without members (KIP-932).

Version 0, flexible. A group that does not exist is created. Unknown topics come first in the
response, with UNKNOWN_TOPIC_OR_PARTITION in each partition. Unknown partitions have it as well.
These errors reject the whole request, and nothing changes: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND (the
group has another type), INVALID_GROUP_ID, UNSUPPORTED_VERSION (share.version 1 is not finalized).
"""

from __future__ import annotations

from typing import Any

from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidGroupId, KafkaError
from minibroker.schemas import k91_alter_share_group_offsets as schema
from minibroker.wire.schema import NIL_UUID


@handles(schema, Pieces("topics.partitions", "responses.partitions"))
def alter_share_group_offsets(ctx: RequestContext, request: schema.Request) -> Any:
    """Alter the offsets. Returns Delayed if logs must be synced first."""
    ctx.broker.check_group_protocol("share")
    if not request.group_id:
        raise InvalidGroupId
    ids = {name: topic.topic_id for name, topic in ctx.cluster.topics.items()}
    topics = sorted(request.topics, key=lambda topic: topic.topic_name in ids)
    starts = [StartOffset(topic.topic_name, each.partition_index, each.start_offset) for topic in topics for each in topic.partitions]

    def answer(result: list[KafkaError | None] | KafkaError) -> schema.Response:
        if isinstance(result, KafkaError):
            return on_error(ctx, request, result)
        errors = iter(result)
        return schema.Response(
            error_code=0,
            responses=[
                schema.TopicResult(
                    topic_name=topic.topic_name,
                    topic_id=ids.get(topic.topic_name, NIL_UUID),
                    partitions=[_result(each.partition_index, next(errors)) for each in topic.partitions],
                )
                for topic in topics
            ],
        )

    return when_done(lambda done: ctx.broker.coordinators.groups.share.alter_offsets(request.group_id, starts, done), answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for the group."""
    return schema.Response(error_code=error.code, error_message=str(error), responses=[])


def _result(index: int, error: KafkaError | None) -> schema.PartitionResult:
    return schema.PartitionResult(
        partition_index=index, error_code=0 if error is None else error.code, error_message=None if error is None else str(error)
    )
