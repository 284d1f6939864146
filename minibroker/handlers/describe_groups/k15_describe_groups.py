"""DescribeGroups (key 15): classic groups, their states and members.

Versions: 0 to 6; 5 is flexible; 3 adds authorized operations (without ACLs: all operations of a
group), 4 the instance ids of static members. A group that does not exist, or is not a classic
group, is Dead; from 6 on with GROUP_ID_NOT_FOUND and without operations. Only a stable group has
its protocol and the metadata of its members. Assignments are returned as long as they are valid.
"""

from __future__ import annotations

from typing import Final

from minibroker.cluster.topic_rules import GROUP_OPERATIONS, NOT_ASKED_FOR
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import GroupIdNotFound, KafkaError
from minibroker.schemas import k15_describe_groups as schema

NOT_FOUND_SINCE: Final = 6
DEAD: Final = "Dead"
STABLE: Final = "Stable"


@handles(schema, Pieces("groups", "groups"))
def describe_groups(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each group."""
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED_FOR
    return schema.Response(groups=[_describe(ctx, group_id, operations) for group_id in request.groups])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` for each group."""
    return schema.Response(groups=[_refused(group_id, error.code) for group_id in request.groups])


def _describe(ctx: RequestContext, group_id: str, operations: int) -> schema.Group:
    try:
        group = ctx.broker.coordinators.groups.classic.describe(group_id)
    except GroupIdNotFound as error:
        if ctx.api_version < NOT_FOUND_SINCE:
            return _refused(group_id, 0, state=DEAD, operations=operations)
        return _refused(group_id, error.code, state=DEAD, message=str(error))
    except KafkaError as error:
        return _refused(group_id, error.code)
    is_stable = group.state.value == STABLE
    return schema.Group(
        error_code=0,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.members.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=_members(group, is_stable=is_stable),
        authorized_operations=operations,
    )


def _members(group: ClassicGroup, *, is_stable: bool) -> list[schema.Member]:
    return [
        schema.Member(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment,
        )
        for member in group.members
    ]


def _refused(
    group_id: str, error_code: int, *, state: str = "", message: str | None = None, operations: int = NOT_ASKED_FOR
) -> schema.Group:
    return schema.Group(
        error_code=error_code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=operations,
    )
