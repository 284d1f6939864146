"""Heartbeat (key 12): keep a member of a classic group alive.

After REBALANCE_IN_PROGRESS it must join again.

Versions: 0 to 4; 4 is flexible; from 3 on static members are fenced if another instance replaced
them. While the group is loaded from its log every heartbeat succeeds, as in Apache Kafka.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.schemas import k12_heartbeat as schema


@handles(schema)
def heartbeat(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Extend the member's session."""
    ctx.broker.coordinators.groups.classic.heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    return schema.Response(error_code=0)
