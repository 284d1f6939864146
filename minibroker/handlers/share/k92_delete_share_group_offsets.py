"""DeleteShareGroupOffsets (key 92): delete the offsets of a share group without members in some topics (KIP-932).

Version 0, flexible. Deleted topics come first in the response. The others are
UNKNOWN_TOPIC_OR_PARTITION: they do not exist, or the group has never read them. These errors reject
the whole request: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, UNSUPPORTED_VERSION
(share.version 1 is not finalized).
"""

from __future__ import annotations

from typing import Any

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidGroupId, KafkaError
from minibroker.schemas import k92_delete_share_group_offsets as schema
from minibroker.wire.schema import NIL_UUID


@handles(schema, Pieces("topics", "responses"))
def delete_share_group_offsets(ctx: RequestContext, request: schema.Request) -> Any:
    """Delete the offsets. Returns Delayed if logs must be synced first."""
    ctx.broker.check_group_protocol("share")
    if not request.group_id:
        raise InvalidGroupId
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    ids = {name: topic.topic_id for name in names if (topic := ctx.cluster.topics.get(name)) is not None}

    def answer(result: list[KafkaError | None] | KafkaError) -> schema.Response:
        if isinstance(result, KafkaError):
            return on_error(ctx, request, result)
        outcomes = sorted(zip(names, result, strict=True), key=lambda each: each[1] is not None)
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
    """Return `error` for the group."""
    return schema.Response(error_code=error.code, error_message=str(error), responses=[])
