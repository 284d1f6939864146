"""DescribeShareGroupOffsets, API key 90: where share groups start to read each partition (KIP-932).

v0  flexible from the start
v1  lag (KIP-1226)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 90
VERSIONS = (0, 1)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="groups", results="groups", key="group_id")
AUTHORIZES = (Special("DESCRIBE of each group; DESCRIBE of each topic"),)
FLEXIBLE_SINCE = 0


@struct
class Topic:
    topic_name: TopicName
    partitions: list[PartitionIndex]


@struct
class Group:
    group_id: String
    topics: list[Topic] | None  #: null asks for all


@struct
class Request:
    groups: list[Group]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    start_offset: Int64
    leader_epoch: Int32
    lag: Int64 = field(since=1, default=-1)
    error_code: Int16
    error_message: String | None = field(default=None)


@struct
class TopicResult:
    topic_name: TopicName
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class GroupResult:
    group_id: String
    topics: list[TopicResult]
    error_code: Int16
    error_message: String | None = field(default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    groups: list[GroupResult]
