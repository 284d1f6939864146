"""AlterShareGroupOffsets, API key 91: change where a share group without members starts to read (KIP-932).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, OnGroup, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 91
VERSIONS = (0, 0)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ), EachTopic(Operation.READ))
FLEXIBLE_SINCE = 0


@struct
class Partition:
    partition_index: PartitionIndex
    start_offset: Int64


@struct
class Topic:
    topic_name: TopicName
    partitions: list[Partition]


@struct
class Request:
    group_id: String
    topics: list[Topic]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)


@struct
class TopicResult:
    topic_name: TopicName
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    responses: list[TopicResult]
