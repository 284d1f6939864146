"""WriteTxnMarkers, API key 27: the coordinator, or an operator who aborts a hanging transaction, ends it in its partitions.

v1  the oldest version of Kafka 4; flexible
v2  transaction_version, so that a partition checks a marker's epoch as strictly as it can (KIP-1228)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Bool, Int8, Int16, Int32, Int64, PartitionIndex, TopicName, field, struct

API_KEY = 27
VERSIONS = (1, 2)
ROUTED_BY = PartitionLeader()
AUTHORIZES = (OnCluster((Operation.ALTER, Operation.CLUSTER_ACTION)),)
FLEXIBLE_SINCE = 1


@struct
class Topic:
    name: TopicName
    partition_indexes: list[PartitionIndex]


@struct
class Marker:
    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool  #: True commits, False aborts
    topics: list[Topic]
    coordinator_epoch: Int32  #: leader epoch of the partition of __transaction_state, -1 from a tool
    transaction_version: Int8 = field(since=2, default=0)


@struct
class Request:
    markers: list[Marker]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class MarkerResult:
    producer_id: Int64
    topics: list[TopicResult]


@struct
class Response:
    markers: list[MarkerResult]
