"""LeaveGroup, API key 13: members leave a classic group, or an operator removes them.

v0  one member by its id
v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  several members, by member_id, group_instance_id or both (KIP-345)
v4  flexible
v5  reason (KIP-800)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, String, field, struct

API_KEY = 13
VERSIONS = (0, 5)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ),)
FLEXIBLE_SINCE = 4


@struct
class Member:
    """From v3 on; Kafka's name is MemberIdentity."""

    member_id: String  #: "" for a member that only group_instance_id identifies
    group_instance_id: String | None = field(default=None)
    reason: String | None = field(since=5, default=None)


@struct
class Request:
    group_id: String
    member_id: String = field(until=2, default="")
    members: list[Member] = field(since=3, default=())


@struct
class MemberResult:
    """From v3 on; Kafka's name is MemberResponse."""

    member_id: String
    group_instance_id: String | None
    error_code: Int16


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16  #: from v3 on of the whole request, below of the member
    members: list[MemberResult] = field(since=3, default=())
