"""ElectLeaders, API key 43: return partitions to their preferred leader, or to any live replica.

v0  preferred leaders
v1  election_type (KIP-460), error_code for the whole answer
v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Int8, Int16, Int32, PartitionIndex, String, TopicName, field, struct

API_KEY = 43
VERSIONS = (0, 2)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 2


@struct
class Topic:
    """Kafka's name is TopicPartitions."""

    topic: TopicName
    partitions: list[PartitionIndex]


@struct
class Request:
    election_type: Int8 = field(since=1, default=0)  #: 0 preferred, 1 unclean
    topic_partitions: list[Topic] | None  #: null asks for all partitions
    timeout_ms: Int32 = field(default=60000)


@struct
class PartitionResult:
    partition_id: PartitionIndex
    error_code: Int16  #: ELECTION_NOT_NEEDED when the leader is the right one already
    error_message: String | None


@struct
class TopicResult:
    """Kafka's name is ReplicaElectionResult."""

    topic: TopicName
    partition_result: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=1, default=0)
    replica_election_results: list[TopicResult]
