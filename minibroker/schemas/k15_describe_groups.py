"""DescribeGroups, API key 15: state and members of classic groups.

v0  groups by name; one that is not there is "Dead", without an error
v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  authorized operations
v4  group_instance_id (KIP-345)
v5  flexible
v6  GROUP_ID_NOT_FOUND for one that is not there, error_message (KIP-1043)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Bool, Bytes, Int16, Int32, String, field, struct

API_KEY = 15
VERSIONS = (0, 6)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="groups", results="groups")
AUTHORIZES = (Special("DESCRIBE of each group"),)
FLEXIBLE_SINCE = 5


@struct
class Request:
    groups: list[String]
    include_authorized_operations: Bool = field(since=3, default=False)


@struct
class Member:
    member_id: String
    group_instance_id: String | None = field(since=4, default=None)
    client_id: String
    client_host: String  #: "/127.0.0.1"
    member_metadata: Bytes  #: of the group's protocol; empty unless the group is stable
    member_assignment: Bytes


@struct
class Group:
    error_code: Int16
    error_message: String | None = field(since=6, default=None)
    group_id: String
    group_state: String  #: "Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead"
    protocol_type: String
    protocol_data: String  #: the name of the protocol; empty unless the group is stable
    members: list[Member]
    authorized_operations: Int32 = field(since=3, default=-(2**31))  #: bit n is AclOperation n; the default: not requested


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    groups: list[Group]
