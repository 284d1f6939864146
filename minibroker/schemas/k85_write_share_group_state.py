"""WriteShareGroupState, API key 85: the leader of a partition writes the states of records to the share coordinator (KIP-932).

v0  flexible from the start; brokers alone use it
v1  delivery_complete_count (KIP-1226)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int8, Int16, Int32, Int64, PartitionIndex, String, TopicId, field, struct

API_KEY = 85
VERSIONS = (0, 1)
ROUTED_BY = Coordinator(CoordinatorType.SHARE, key=None)  #: group_id, topic_id and partition
AUTHORIZES = (OnCluster((Operation.CLUSTER_ACTION,)),)
FLEXIBLE_SINCE = 0


@struct
class StateBatch:
    first_offset: Int64
    last_offset: Int64  #: inclusive
    delivery_state: Int8  #: 0 available, 2 acknowledged, 4 archived
    delivery_count: Int16


@struct
class Partition:
    partition: PartitionIndex
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64  #: -1: as before
    delivery_complete_count: Int32 = field(since=1, default=-1)  #: offsets from start_offset on whose delivery is complete
    state_batches: list[StateBatch]


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


@struct
class TopicResult:
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class Response:
    results: list[TopicResult]
