"""DeleteShareGroupOffsets (key 92): forget where a share group without members was in topics (KIP-932).

Versions: 0 alone, flexible. Topics that could be forgotten are told first, the others with UNKNOWN_TOPIC_OR_PARTITION: they are not there,
or the group has never read them. The group as a whole is refused with NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, INVALID_GROUP_ID,
UNSUPPORTED_VERSION (share.version 1 is not finalized).
"""

from __future__ import annotations

from typing import Any

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.group_protocols import check_share_groups
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidGroupId, KafkaError
from minibroker.schemas import k92_delete_share_group_offsets as schema
from minibroker.wire.schema import NIL_UUID


@handles(schema, Pieces("topics", "responses"))
def delete_share_group_offsets(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed where logs are to be synced first."""
    check_share_groups(ctx)
    if not request.group_id:
        raise InvalidGroupId
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    ids = {name: topic.topic_id for name in names if (topic := ctx.cluster.topics.get(name)) is not None}

    def answer(told: list[KafkaError | None] | KafkaError) -> schema.Response:
        if isinstance(told, KafkaError):
            return on_error(ctx, request, told)
        outcomes = sorted(zip(names, told, strict=True), key=lambda each: each[1] is not None)
        return schema.Response(
            error_code=0,
            responses=[
                schema.TopicResult(topic_name=name, topic_id=NIL_UUID, error_code=error.code, error_message=str(error))
                if error is not None
                else schema.TopicResult(topic_name=name, topic_id=ids[name], error_code=0)
                for name, error in outcomes
            ],
        )

    return when_done(lambda done: ctx.broker.coordinators.groups.share.delete_offsets(request.group_id, names, done), answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """The group as a whole failed."""
    return schema.Response(error_code=error.code, error_message=str(error), responses=[])
