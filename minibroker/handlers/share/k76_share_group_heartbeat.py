"""ShareGroupHeartbeat (key 76): join, stay in or leave a share group, and receive its assignment (KIP-932).

Version 1, flexible. The protocol is in coordinator/group/share/group.py. UNSUPPORTED_VERSION: the cluster has not finalized share.version
1. An error has neither member nor epoch, and the message of the group if it has one.
"""

from __future__ import annotations

from typing import Any

from minibroker.config.request_limits import HEARTBEAT_ELEMENTS_MAX
from minibroker.coordinator.group.share.group import ShareHeartbeat, ShareHeartbeatAnswer
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.handlers.share import check_member_id
from minibroker.schemas import k76_share_group_heartbeat as schema


@handles(schema, limit=ElementLimit(HEARTBEAT_ELEMENTS_MAX))
def share_group_heartbeat(ctx: RequestContext, request: schema.Request) -> Any:
    """Handle the heartbeat. Returns Delayed if logs must be synced first."""
    ctx.broker.check_group_protocol("share")
    check_member_id(request.member_id)
    names = request.subscribed_topic_names
    received = ShareHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_host}",
        rack_id=request.rack_id,
        topic_names=None if names is None else tuple(names),
    )
    return when_done(lambda done: ctx.broker.coordinators.groups.share.heartbeat(request.group_id, received, done), _answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return the code without a message, as Kafka does for requests that it rejects at once."""
    return schema.Response(error_code=error.code, member_epoch=0, heartbeat_interval_ms=0)


def _answer(result: ShareHeartbeatAnswer | KafkaError) -> schema.Response:
    if isinstance(result, KafkaError):
        return schema.Response(error_code=result.code, error_message=str(result), member_epoch=0, heartbeat_interval_ms=0)
    assignment = None
    if result.assignment is not None:
        partitions = [schema.TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in result.assignment.items()]
        assignment = schema.Assignment(topic_partitions=partitions)
    return schema.Response(
        error_code=0,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )
