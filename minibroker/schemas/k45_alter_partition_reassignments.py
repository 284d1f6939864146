"""AlterPartitionReassignments, API key 45: move replicas of partitions to other brokers, or stop moving them (KIP-455).

v0  flexible from the start
v1  allow_replication_factor_change (KIP-860)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bool, Int16, Int32, PartitionIndex, String, TopicName, field, struct

API_KEY = 45
VERSIONS = (0, 1)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 0


@struct
class Partition:
    partition_index: PartitionIndex
    replicas: list[Int32] | None = field(default=None)  #: null stops what is under way


@struct
class Topic:
    name: TopicName
    partitions: list[Partition]


@struct
class Request:
    timeout_ms: Int32 = field(default=60000)
    allow_replication_factor_change: Bool = field(since=1, default=True)
    topics: list[Topic]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    allow_replication_factor_change: Bool = field(since=1, default=True)
    error_code: Int16
    error_message: String | None
    responses: list[TopicResult]
