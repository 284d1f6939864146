"""SyncGroup, API key 14: the leader of a classic group sends the assignments, and each member receives its own.

v0  group, generation, member, assignments
v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  group_instance_id (KIP-345)
v4  flexible
v5  protocol_type and protocol_name both ways; INCONSISTENT_GROUP_PROTOCOL when they are not the group's (KIP-559)

The answer is sent when the leader has sent the assignments.
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Bytes, Int16, Int32, String, field, struct

API_KEY = 14
VERSIONS = (0, 5)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (Special("READ of the group, after the check of the protocol"),)
FLEXIBLE_SINCE = 4


@struct
class Assignment:
    member_id: String
    assignment: Bytes  #: the group's own; of consumers ConsumerProtocolAssignment


@struct
class Request:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(since=3, default=None)
    protocol_type: String | None = field(since=5, default=None)
    protocol_name: String | None = field(since=5, default=None)
    assignments: list[Assignment]  #: empty but from the leader


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16
    protocol_type: String | None = field(since=5, default=None)
    protocol_name: String | None = field(since=5, default=None)
    assignment: Bytes
