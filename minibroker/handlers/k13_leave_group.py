"""LeaveGroup (key 13): members leave a classic group, or an operator removes them.

Versions: 0 to 5; 4 is flexible. From 3 on a request has several members, each with its own error,
and may name a static member by its instance id only. Before that the error of the only member is
that of the response. An unknown group has no members: UNKNOWN_MEMBER_ID.
"""

from __future__ import annotations

from typing import Any, Final

from minibroker.coordinator.group.classic.requests import Leave
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.schemas import k13_leave_group as schema

SEVERAL_MEMBERS_SINCE: Final = 3


@handles(schema, Pieces("members", "members"))
def leave_group(ctx: RequestContext, request: schema.Request) -> Any:
    """Remove the members. Returns Delayed if the log must be synced first."""
    leaving = [Leave(each.member_id, each.group_instance_id) for each in request.members]
    if ctx.api_version < SEVERAL_MEMBERS_SINCE:
        leaving = [Leave(request.member_id)]

    def answer(errors: list[type[KafkaError] | None]) -> schema.Response:
        codes = [0 if error is None else error.code for error in errors]
        if ctx.api_version < SEVERAL_MEMBERS_SINCE:
            return schema.Response(error_code=codes[0])
        return schema.Response(
            error_code=0,
            members=[
                schema.MemberResult(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code)
                for each, code in zip(leaving, codes, strict=True)
            ],
        )

    return when_done(lambda done: ctx.broker.coordinators.groups.classic.leave(request.group_id, leaving, done), answer)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for the request, without members."""
    return schema.Response(error_code=error.code)
