"""ShareGroupHeartbeat, API key 76: a member of a share group joins, stays alive, receives its partitions and leaves (KIP-932).

v1  the first stable version, flexible; v0 was Kafka 4.0's early access

Null in a request means: as in the last one.
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation, Special
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, String, Uuid, field, struct

API_KEY = 76
VERSIONS = (1, 1)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ), Special("DESCRIBE of each subscribed topic"))
FLEXIBLE_SINCE = 0


@struct
class Request:
    group_id: String
    member_id: String  #: the member chooses it
    member_epoch: Int32  #: 0 joins, -1 leaves
    rack_id: String | None = field(default=None)
    subscribed_topic_names: list[String] | None = field(default=None)


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Assignment:
    topic_partitions: list[TopicPartitions]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String | None = field(default=None)
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    assignment: Assignment | None = field(default=None)  #: null: unchanged
