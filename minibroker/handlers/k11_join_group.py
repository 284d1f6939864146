"""JoinGroup (key 11): become a member of a classic group, or take part in its next generation.

Versions: 0 to 9; 6 is flexible. Version 0 uses the session timeout as rebalance timeout. From 4 on
a member without an id gets one first and joins again with it. From 5 on members may be static. In
version 9 the answer can let a static leader that rejoins skip the assignment. The response is sent
when the generation starts, after the slowest member has joined
(coordinator/group/classic/group.py). Names that are nullable only in later versions are "" up to
version 6.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.coordinator.group.classic.requests import Join, JoinAnswer, Protocol
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InconsistentGroupProtocol
from minibroker.schemas import k11_join_group as schema

REBALANCE_TIMEOUT_SINCE: Final = 1
KNOWN_MEMBER_ID_SINCE: Final = 4
NULL_NAME_SINCE: Final = 7
SKIPS_ASSIGNMENT_SINCE: Final = 9

_PROTOCOLS_MAX: Final = 1000  #: protocols of a member; clients have fewer than ten


@handles(schema)
def join_group(ctx: RequestContext, request: schema.Request) -> Any:
    """Join the group. Returns Delayed until the generation starts."""
    if len(request.protocols) > _PROTOCOLS_MAX:
        raise InconsistentGroupProtocol
    has_rebalance_timeout = ctx.api_version >= REBALANCE_TIMEOUT_SINCE
    join = Join(
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.connection.client_host}",
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, bytes(each.metadata)) for each in request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_rebalance_timeout else request.session_timeout_ms,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        requires_known_member_id=ctx.api_version >= KNOWN_MEMBER_ID_SINCE,
        supports_skipping_assignment=ctx.api_version >= SKIPS_ASSIGNMENT_SINCE,
    )

    def answer(result: JoinAnswer) -> schema.Response:
        return schema.Response(
            error_code=0 if result.error is None else result.error.code,
            generation_id=result.generation_id,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol_name if ctx.api_version >= NULL_NAME_SINCE else result.protocol_name or "",
            leader=result.leader,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[
                schema.Member(member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata)
                for each in result.members
            ],
        )

    return when_done(lambda done: ctx.broker.coordinators.groups.classic.join(request.group_id, join, done), answer)
