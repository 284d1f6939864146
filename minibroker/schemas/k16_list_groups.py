"""ListGroups, API key 16: the groups that this broker coordinates, of all types.

v0  all
v1  throttle_time_ms
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  flexible
v4  states_filter, group_state (KIP-518)
v5  types_filter, group_type (KIP-848)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorType, EachCoordinator
from minibroker.wire.schema import Int16, Int32, String, field, struct

API_KEY = 16
VERSIONS = (0, 5)
ROUTED_BY = EachCoordinator(CoordinatorType.GROUP, results="groups", key="group_id")
AUTHORIZES = (Special("DESCRIBE of the cluster, or of each group; the others are left out"),)
FLEXIBLE_SINCE = 3
LEFTOVER_ALLOWED = True  #: librdkafka 2.0 leaves a byte after the request, and Kafka ignores it


@struct
class Request:
    states_filter: list[String] = field(since=4, default=())  #: empty asks for all
    types_filter: list[String] = field(since=5, default=())  #: empty asks for all


@struct
class Group:
    group_id: String
    protocol_type: String
    group_state: String = field(since=4, default="")
    group_type: String = field(since=5, default="")  #: "classic", "consumer", "share", "streams"


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16
    groups: list[Group]
