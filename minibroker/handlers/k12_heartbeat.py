"""Heartbeat (key 12): a member of a classic group is alive, and hears whether it has to join again (REBALANCE_IN_PROGRESS).

Versions: 0 to 4; 4 is flexible; from 3 on static members are told when another one has their place.
While the group is being read from its log every heartbeat is fine, as in Apache Kafka.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.schemas import k12_heartbeat as schema


@handles(schema)
def heartbeat(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Errors are raised, and answered as they are."""
    ctx.broker.coordinators.groups.classic.heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    return schema.Response(error_code=0)
