"""AlterReplicaLogDirs, API key 34: move replicas of partitions to other log directories of the broker that gets the request.

v0  not served: Apache Kafka 4 dropped it
v1  quota violations are reported before the client is throttled
v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import OneBroker
from minibroker.wire.schema import Int16, Int32, PartitionIndex, String, TopicName, field, struct

API_KEY = 34
VERSIONS = (1, 2)
ROUTED_BY = OneBroker()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 2


@struct
class RequestTopic:
    name: TopicName
    partitions: list[PartitionIndex]


@struct
class Directory:
    path: String  #: as in DescribeLogDirs
    topics: list[RequestTopic]


@struct
class Request:
    dirs: list[Directory]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16


@struct
class TopicResult:
    topic_name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[TopicResult]
