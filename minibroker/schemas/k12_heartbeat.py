"""Heartbeat, API key 12: a member of a classic group is alive, and learns of a rebalance.

v0  group, generation, member
v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  group_instance_id (KIP-345)
v4  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, String, field, struct

API_KEY = 12
VERSIONS = (0, 4)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ),)
FLEXIBLE_SINCE = 4


@struct
class Request:
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: String | None = field(since=3, default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16  #: REBALANCE_IN_PROGRESS: join again
