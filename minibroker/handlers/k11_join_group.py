"""JoinGroup (key 11): become a member of a classic group, or take part in its next generation.

Versions: 0 to 9; 6 is flexible; up to 0 the session time-out is the rebalance time-out, too; from 4 on a member without an id is told one
first; from 5 on members may be static; 9 tells a static leader that came back to leave the assignment as it is.
Answered when the generation begins, which takes as long as the slowest member: what a group does when is in
coordinator/group/classic/group.py. Where a nullable name cannot be null (up to 6) it is "".
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

_PROTOCOLS_MAX: Final = 1000  #: that a member may speak; clients have a handful


@handles(schema)
def join_group(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed until the generation begins."""
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

    def answer(told: JoinAnswer) -> schema.Response:
        return schema.Response(
            error_code=0 if told.error is None else told.error.code,
            generation_id=told.generation_id,
            protocol_type=told.protocol_type,
            protocol_name=told.protocol_name if ctx.api_version >= NULL_NAME_SINCE else told.protocol_name or "",
            leader=told.leader,
            skip_assignment=told.skip_assignment,
            member_id=told.member_id,
            members=[
                schema.Member(member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata)
                for each in told.members
            ],
        )

    return when_done(lambda done: ctx.broker.coordinators.groups.classic.join(request.group_id, join, done), answer)
