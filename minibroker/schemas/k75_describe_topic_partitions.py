"""DescribeTopicPartitions, API key 75: partitions of topics, page by page (KIP-966).

v0  flexible from the start

Topics are answered in the order of their names. When the limit is reached, next_cursor is where the next page starts.
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import NIL_UUID, Bool, Int16, Int32, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 75
VERSIONS = (0, 0)
ROUTED_BY = AnyBroker()
AUTHORIZES = (Special("DESCRIBE of each topic"),)
FLEXIBLE_SINCE = 0


@struct
class Topic:
    name: TopicName


@struct
class Cursor:
    topic_name: String
    partition_index: Int32


@struct
class Request:
    topics: list[Topic]  #: empty asks for all
    response_partition_limit: Int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)  #: where to start


@struct
class PartitionResult:
    error_code: Int16
    partition_index: PartitionIndex
    leader_id: Int32  #: -1 when there is no leader
    leader_epoch: Int32 = field(default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    eligible_leader_replicas: list[Int32] | None = field(default=None)  #: not in sync, but known to have all committed records
    last_known_elr: list[Int32] | None = field(default=None)
    offline_replicas: list[Int32]


@struct
class TopicResult:
    error_code: Int16
    name: TopicName | None
    topic_id: TopicId = field(default=NIL_UUID)
    is_internal: Bool = field(default=False)
    partitions: list[PartitionResult]
    topic_authorized_operations: Int32 = field(default=-(2**31))  #: bit n is AclOperation n; the default: not requested


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
    next_cursor: Cursor | None = field(default=None)
