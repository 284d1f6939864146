"""DeleteShareGroupState, API key 86: the group coordinator has the share coordinator forget partitions (KIP-932).

v0  flexible from the start; brokers alone use it
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, PartitionIndex, String, TopicId, field, struct

API_KEY = 86
VERSIONS = (0, 0)
ROUTED_BY = Coordinator(CoordinatorType.SHARE, key=None)  #: group_id, topic_id and partition
AUTHORIZES = (OnCluster((Operation.CLUSTER_ACTION,)),)
FLEXIBLE_SINCE = 0


@struct
class Partition:
    partition: PartitionIndex


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
