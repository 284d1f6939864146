"""OffsetDelete, API key 47: forget committed offsets of partitions that the group does not read any more (KIP-496).

v0  never flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, PartitionIndex, String, TopicName, field, struct

API_KEY = 47
VERSIONS = (0, 0)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.DELETE), EachTopic(Operation.READ))
FLEXIBLE_SINCE = None


@struct
class Partition:
    partition_index: PartitionIndex


@struct
class Topic:
    name: TopicName
    partitions: list[Partition]


@struct
class Request:
    group_id: String
    topics: list[Topic]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    error_code: Int16  #: of the whole request; then there are no topics
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
