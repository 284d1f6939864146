"""ListPartitionReassignments, API key 46: which partitions are being moved (KIP-455).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Int16, Int32, PartitionIndex, String, TopicName, field, struct

API_KEY = 46
VERSIONS = (0, 0)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.DESCRIBE,)),)
FLEXIBLE_SINCE = 0


@struct
class Topic:
    name: TopicName
    partition_indexes: list[PartitionIndex]


@struct
class Request:
    timeout_ms: Int32 = field(default=60000)
    topics: list[Topic] | None = field(default=None)  #: null asks for all


@struct
class PartitionResult:
    """Kafka's name is OngoingPartitionReassignment."""

    partition_index: Int32
    replicas: list[Int32]
    adding_replicas: list[Int32]
    removing_replicas: list[Int32]


@struct
class TopicResult:
    """Kafka's name is OngoingTopicReassignment; partitions that are not moved are left out."""

    name: String
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    topics: list[TopicResult]
