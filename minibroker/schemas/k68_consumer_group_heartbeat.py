"""ConsumerGroupHeartbeat, API key 68: a member of a consumer group joins, stays alive, receives its partitions and leaves (KIP-848).

v0  flexible from the start; the broker chooses a member id for who has none
v1  subscribed_topic_regex; the member chooses its id itself (KIP-1082)

Null and -1 in a request mean: as in the last request. The first request, and one after an error, contains everything.
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation, Special
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, PartitionIndex, String, TopicId, field, struct

API_KEY = 68
VERSIONS = (0, 1)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ), Special("DESCRIBE of each subscribed topic; a regular expression matches only those"))
FLEXIBLE_SINCE = 0


@struct
class TopicPartitions:
    topic_id: TopicId
    partitions: list[PartitionIndex]


@struct
class Request:
    group_id: String
    member_id: String
    member_epoch: Int32  #: 0 joins, -1 leaves, -2 is a static member that leaves and means to come back
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)  #: how long the member may take to give up partitions
    subscribed_topic_names: list[String] | None = field(default=None)
    subscribed_topic_regex: String | None = field(since=1, default=None)  #: RE2's syntax; "" for none any more
    server_assignor: String | None = field(default=None)  #: "uniform", "range"
    topic_partitions: list[TopicPartitions] | None = field(default=None)  #: what the member owns at the moment


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
