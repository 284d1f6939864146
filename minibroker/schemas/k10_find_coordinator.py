"""FindCoordinator, API key 10: which broker looks after a group, a transactional id, or a partition of a share group.

v0  group_id in `key`, and nothing else
v1  key_type; throttle_time_ms, error_message
v2  answer carries throttle_time_ms before the quota delay, not after it
v3  flexible
v4  several keys (KIP-699)
v5  TRANSACTION_ABORTABLE may be answered (KIP-890)
v6  share groups (KIP-932)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker, CoordinatorType
from minibroker.wire.schema import Int8, Int16, Int32, String, field, struct

API_KEY = 10
VERSIONS = (0, 6)
ROUTED_BY = AnyBroker()
AUTHORIZES = (Special("DESCRIBE of each group or transactional id; CLUSTER_ACTION for share coordinators"),)
FLEXIBLE_SINCE = 3

GROUP = CoordinatorType.GROUP.value  #: key_type; the key is a group_id
TRANSACTION = CoordinatorType.TRANSACTION.value  #: the key is a transactional_id
SHARE = CoordinatorType.SHARE.value  #: the key is group_id:topic_id:partition


@struct
class Request:
    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=GROUP)
    coordinator_keys: list[String] = field(since=4, default=())


@struct
class Coordinator:
    key: String
    node_id: Int32  #: -1 on error, then host is "" and port -1
    host: String
    port: Int32
    error_code: Int16
    error_message: String | None


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = field(until=3, default=0)
    error_message: String | None = field(since=1, until=3, default="")
    node_id: Int32 = field(until=3, default=0)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default=())
