"""SyncGroup (key 14): the leader of a classic group sends the assignments, and each member receives its own.

Versions: 0 to 5; 4 is flexible; 3 adds instance ids of static members; 5 requires the protocol type
and name and returns them. If they are missing or not the group's: INCONSISTENT_GROUP_PROTOCOL. The
response is sent when the leader's assignment is stored. If the group starts another rebalance
before that: REBALANCE_IN_PROGRESS.
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
    """Return the member's assignment, or Delayed until the leader has sent it."""
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
    """Respond now, or one turn after the assignment arrived, so that the leader gets its response before waiting members."""
    is_waiting = False

    def synced(result: SyncAnswer) -> None:
        if is_waiting:
            ctx.broker.clock.call_later_ms(0, partial(done, result))
        else:
            done(result)

    ctx.broker.coordinators.groups.classic.sync(group_id, sync, synced)
    is_waiting = True


def _answer(result: SyncAnswer) -> schema.Response:
    return schema.Response(
        error_code=0 if result.error is None else result.error.code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
