"""ListGroups (key 16): every group and its type.

Versions: 0 to 5; 3 is flexible; 4 returns states and can filter by them; 5 does the same with
types. Filters are case-insensitive, and an unknown name matches no group. Groups whose log is
offline are not listed. Groups that are created or deleted while many are listed may be missing.
"""

from __future__ import annotations

from typing import Final

from minibroker.config.request_limits import LIST_GROUPS_FILTERS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.schemas import k16_list_groups as schema

_STEP: Final = 200  #: groups examined between two pauses


@handles(schema, limit=ElementLimit(LIST_GROUPS_FILTERS_MAX), has_long_answer=True)
def list_groups(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """List the groups.

    Loads logs that no request has needed yet; COORDINATOR_LOAD_IN_PROGRESS if that takes long.
    """
    return ctx.broker.slices.run(_list(ctx, request))


def _list(ctx: RequestContext, request: schema.Request) -> Steps:
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    groups: list[schema.Group] = []
    for number, each in enumerate(ctx.broker.coordinators.groups.groups()):
        if (not states or each.state.lower() in states) and (not types or each.group_type in types):
            groups.append(
                schema.Group(group_id=each.group_id, protocol_type=each.protocol_type, group_state=each.state, group_type=each.group_type)
            )
        if number % _STEP == _STEP - 1:
            yield None
    return schema.Response(error_code=0, groups=groups)
