"""SyncGroup (key 14): the leader of a classic group says what each member shall read, and each member is told.

Versions: 0 to 5; 4 is flexible; from 3 on with the instance of static members; 5 must name the protocol, and names it in the answer:
none, or another one than the group's, is INCONSISTENT_GROUP_PROTOCOL.
Answered when the leader's assignment is stored; a group that begins another rebalance before that answers REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from minibroker.coordinator.group.classic.requests import Sync, SyncAnswer
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import when_done
from minibroker.dispatch.registry import handles
from minibroker.errors import InconsistentGroupProtocol, InvalidRequest
from minibroker.schemas import k14_sync_group as schema

PROTOCOL_SINCE: Final = 5

_ASSIGNMENTS_MAX: Final = 20_000


@handles(schema)
def sync_group(ctx: RequestContext, request: schema.Request) -> Any:
    """Response, or Delayed until the assignment is there."""
    if ctx.api_version >= PROTOCOL_SINCE and (request.protocol_type is None or request.protocol_name is None):
        raise InconsistentGroupProtocol
    if len(request.assignments) > _ASSIGNMENTS_MAX:
        raise InvalidRequest(f"{len(request.assignments)} assignments, and a group has {_ASSIGNMENTS_MAX} members at most")
    sync = Sync(
        request.member_id,
        request.generation_id,
        request.group_instance_id,
        request.protocol_type,
        request.protocol_name,
        tuple((each.member_id, bytes(each.assignment)) for each in request.assignments),
    )
    return when_done(partial(_begin, ctx, request.group_id, sync), _answer)


def _begin(ctx: RequestContext, group_id: str, sync: Sync, done: Callable[[SyncAnswer], None]) -> None:
    """Answer at once, or in the turn after the one in which the assignment came: the leader hears before the members that wait for it."""
    waits = False

    def synced(told: SyncAnswer) -> None:
        if waits:
            ctx.broker.clock.call_later_ms(0, partial(done, told))
        else:
            done(told)

    ctx.broker.coordinators.groups.classic.sync(group_id, sync, synced)
    waits = True


def _answer(told: SyncAnswer) -> schema.Response:
    return schema.Response(
        error_code=0 if told.error is None else told.error.code,
        protocol_type=told.protocol_type,
        protocol_name=told.protocol_name,
        assignment=told.assignment,
    )
