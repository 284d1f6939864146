"""ReadShareGroupStateSummary, API key 87: the group coordinator asks the share coordinator how far a group is (KIP-932).

v0  flexible from the start; brokers alone use it
v1  delivery_complete_count (KIP-1226)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, String, TopicId, field, struct

API_KEY = 87
VERSIONS = (0, 1)
ROUTED_BY = Coordinator(CoordinatorType.SHARE, key=None)  #: group_id, topic_id and partition
AUTHORIZES = (OnCluster((Operation.CLUSTER_ACTION,)),)
FLEXIBLE_SINCE = 0


@struct
class Partition:
    partition: PartitionIndex
    leader_epoch: Int32


@struct
class Topic:
    topic_id: TopicId
    partitions: list[Partition]


@struct
class Request:
    group_id: String
    topics: list[Topic]


@struct
class PartitionResult:
    partition: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(since=1, default=-1)  #: offsets from start_offset on whose delivery is complete


@struct
class TopicResult:
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class Response:
    results: list[TopicResult]
