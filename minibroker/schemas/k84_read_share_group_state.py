"""ReadShareGroupState, API key 84: the leader of a partition reads the states of its records from the share coordinator (KIP-932).

v0  flexible from the start; brokers alone use it
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int8, Int16, Int32, Int64, PartitionIndex, String, TopicId, field, struct

API_KEY = 84
VERSIONS = (0, 0)
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
class StateBatch:
    first_offset: Int64
    last_offset: Int64  #: inclusive
    delivery_state: Int8  #: 0 available, 2 acknowledged, 4 archived
    delivery_count: Int16


@struct
class PartitionResult:
    partition: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)
    state_epoch: Int32
    start_offset: Int64  #: -1 when it is not initialized yet
    state_batches: list[StateBatch]


@struct
class TopicResult:
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class Response:
    results: list[TopicResult]
