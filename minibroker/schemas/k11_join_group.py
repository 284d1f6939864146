"""JoinGroup, API key 11: become a member of a group whose members divide the work themselves (a classic group).

v0  a member's time to join again in a rebalance is its session timeout
v1  rebalance_timeout_ms
v2  throttle_time_ms
v3  answer carries throttle_time_ms before the quota delay, not after it
v4  a member without an id receives one with MEMBER_ID_REQUIRED, and joins again with it (KIP-394)
v5  group_instance_id of static members (KIP-345)
v6  flexible
v7  protocol_type in the answer; protocol_name may be null, which the client takes for a broker without KIP-559
v8  reason (KIP-800)
v9  skip_assignment: a static leader that came back finds the assignment made (KIP-814)

The answer is sent when all members have joined or the rebalance timeout has passed. Only the leader receives the members.
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Bool, Bytes, Int16, Int32, String, field, struct

API_KEY = 11
VERSIONS = (0, 9)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ),)
FLEXIBLE_SINCE = 6


@struct
class Protocol:
    """A way to divide the work, which for a consumer is an assignor: "range", "cooperative-sticky"."""

    name: String
    metadata: Bytes  #: the group's own; of consumers ConsumerProtocolSubscription


@struct
class Request:
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32 = field(since=1, default=-1)  #: absent: the session timeout
    member_id: String  #: "" for a new member
    group_instance_id: String | None = field(since=5, default=None)
    protocol_type: String  #: "consumer", "connect", ...
    protocols: list[Protocol]  #: the preferred one first
    reason: String | None = field(since=8, default=None)


@struct
class Member:
    member_id: String
    group_instance_id: String | None = field(since=5, default=None)
    metadata: Bytes


@struct
class Response:
    throttle_time_ms: Int32 = field(since=2, default=0)
    error_code: Int16
    generation_id: Int32 = field(default=-1)
    protocol_type: String | None = field(since=7, default=None)
    protocol_name: String | None = field(nullable=7)
    leader: String  #: the member id of the one that divides the work
    skip_assignment: Bool = field(since=9, default=False)
    member_id: String
    members: list[Member]
