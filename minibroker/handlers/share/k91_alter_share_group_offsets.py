"""AlterShareGroupOffsets (key 91): let a share group without members begin elsewhere (KIP-932).

Versions: 0 alone, flexible. A group that is not there is made. Topics that are not there are told first, each partition of theirs with
UNKNOWN_TOPIC_OR_PARTITION, as a partition is that its topic does not have. The group as a whole is refused with NON_EMPTY_GROUP,
GROUP_ID_NOT_FOUND (it is of another kind), INVALID_GROUP_ID, UNSUPPORTED_VERSION (share.version 1 is not finalized); then nothing happens.
"""

from __future__ import annotations

from typing import Any

from minibroker.coordinator.group.share.offsets import StartOffset
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.group_protocols import check_share_groups
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidGroupId, KafkaError
from minibroker.schemas import k91_alter_share_group_offsets as schema
from minibroker.wire.schema import NIL_UUID


@handles(schema, Pieces("topics.partitions", "responses.partitions"))
def alter_share_group_offsets(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed where logs are to be synced first."""
    check_share_groups(ctx)
    if not request.group_id:
        raise InvalidGroupId
    ids = {name: topic.topic_id for name, topic in ctx.cluster.topics.items()}
    topics = sorted(request.topics, key=lambda topic: topic.topic_name in ids)
    starts = [StartOffset(topic.topic_name, each.partition_index, each.start_offset) for topic in topics for each in topic.partitions]

    def answer(told: list[KafkaError | None] | KafkaError) -> schema.Response:
        if isinstance(told, KafkaError):
            return on_error(ctx, request, told)
        errors = iter(told)
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
    """The group as a whole failed."""
    return schema.Response(error_code=error.code, error_message=str(error), responses=[])


def _result(index: int, error: KafkaError | None) -> schema.PartitionResult:
    return schema.PartitionResult(
        partition_index=index, error_code=0 if error is None else error.code, error_message=None if error is None else str(error)
    )
