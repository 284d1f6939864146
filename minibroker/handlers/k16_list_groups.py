"""ListGroups (key 16): every group, and of what kind it is.

Versions: 0 to 5; 3 is flexible; from 4 on with states, and only those asked for; 5 the same with types. Names of states and types are taken
in any case; one that does not exist matches nothing. Groups of a log that is offline are not there.
"""

from __future__ import annotations

from minibroker.config.request_limits import LIST_GROUPS_FILTERS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.element_limit import ElementLimit
from minibroker.dispatch.registry import handles
from minibroker.schemas import k16_list_groups as schema


@handles(schema, limit=ElementLimit(LIST_GROUPS_FILTERS_MAX))
def list_groups(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Reads the logs of groups that nobody asked for yet; COORDINATOR_LOAD_IN_PROGRESS where that takes time."""
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    return schema.Response(
        error_code=0,
        groups=[
            schema.Group(group_id=each.group_id, protocol_type=each.protocol_type, group_state=each.state, group_type=each.group_type)
            for each in ctx.groups.groups()
            if (not states or each.state.lower() in states) and (not types or each.group_type in types)
        ],
    )
