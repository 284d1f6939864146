"""OffsetCommit, API key 8: store the offsets of a group.

v2   the oldest version of Kafka 4: generation_id_or_member_epoch, member_id, retention_time_ms
v3   throttle_time_ms
v4   answer carries throttle_time_ms before the quota delay, not after it
v5   without retention_time_ms (KIP-211)
v6   committed_leader_epoch (KIP-320)
v7   group_instance_id (KIP-345)
v8   flexible
v9   new groups may use it (KIP-848): STALE_MEMBER_EPOCH and GROUP_ID_NOT_FOUND may be answered
v10  topic_id instead of name
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import NIL_UUID, Int16, Int32, Int64, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 8
VERSIONS = (2, 10)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ), EachTopic(Operation.READ))
FLEXIBLE_SINCE = 8


@struct
class Partition:
    partition_index: PartitionIndex
    committed_offset: Int64  #: the next offset to read
    committed_leader_epoch: Int32 = field(since=6, default=-1)
    committed_metadata: String | None  #: the client's own data, stored with the offset


@struct
class Topic:
    name: TopicName = field(until=9, default="")
    topic_id: TopicId = field(since=10, default=NIL_UUID)
    partitions: list[Partition]


@struct
class Request:
    group_id: String
    generation_id_or_member_epoch: Int32 = field(default=-1)  #: -1 from a consumer that assigns its partitions itself
    member_id: String
    group_instance_id: String | None = field(since=7, default=None)
    retention_time_ms: Int64 = field(until=4, default=-1)  #: -1 leaves it to the broker
    topics: list[Topic]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16


@struct
class TopicResult:
    name: TopicName = field(until=9, default="")
    topic_id: TopicId = field(since=10, default=NIL_UUID)
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: list[TopicResult]
