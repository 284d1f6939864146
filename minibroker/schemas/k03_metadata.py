"""Metadata, API key 3: brokers, topics, partitions and their leaders.

v0   an empty list of topics asks for all of them
v1   null asks for all topics, an empty list for none; rack, controller_id, is_internal
v2   cluster_id (KIP-78)
v3   throttle_time_ms
v4   allow_auto_topic_creation
v5   offline_replicas (KIP-112)
v6   answer carries throttle_time_ms before the quota delay, not after it
v7   leader_epoch (KIP-320)
v8   authorized operations of the cluster and of topics (KIP-430)
v9   flexible
v10  topic_id, in the request too, where brokers honour it from v12 only (KIP-516)
v11  authorized operations of the cluster move to DescribeCluster (KIP-700)
v12  topics may be requested by topic_id, with a null name
v13  error_code for the whole answer (KIP-1102)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import NIL_UUID, Bool, Int16, Int32, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 3
VERSIONS = (0, 13)
ROUTED_BY = AnyBroker()
AUTHORIZES = (Special("DESCRIBE of each topic; CREATE of the cluster or of topics that are created"),)
FLEXIBLE_SINCE = 9
LEFTOVER_ALLOWED = True  #: librdkafka 2.16 leaves three bytes after a flexible request for all topics, and Kafka ignores them

OPERATIONS_NOT_ASKED_FOR = -(2**31)  #: authorized operations when the client did not ask for them


@struct
class Topic:
    topic_id: TopicId = field(since=10, default=NIL_UUID)
    name: TopicName | None = field(nullable=10)  #: null asks by topic_id


@struct
class Request:
    topics: list[Topic] | None = field(nullable=1)
    allow_auto_topic_creation: Bool = field(since=4, default=True)
    include_cluster_authorized_operations: Bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = field(since=8, default=False)


@struct
class Broker:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(since=1, default=None)


@struct
class PartitionResult:
    error_code: Int16
    partition_index: PartitionIndex
    leader_id: Int32  #: -1 when there is no leader
    leader_epoch: Int32 = field(since=7, default=-1)
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    offline_replicas: list[Int32] = field(since=5, default=())


@struct
class TopicResult:
    error_code: Int16
    name: TopicName | None = field(nullable=12)  #: null only for an unknown topic_id
    topic_id: TopicId = field(since=10, default=NIL_UUID)  #: zero only for an unknown name
    is_internal: Bool = field(since=1, default=False)
    partitions: list[PartitionResult]
    topic_authorized_operations: Int32 = field(since=8, default=OPERATIONS_NOT_ASKED_FOR)  #: bit n is AclOperation n


@struct
class Response:
    throttle_time_ms: Int32 = field(since=3, default=0)
    brokers: list[Broker]
    cluster_id: String | None = field(since=2, default=None)
    controller_id: Int32 = field(since=1, default=-1)
    topics: list[TopicResult]
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=OPERATIONS_NOT_ASKED_FOR)
    error_code: Int16 = field(since=13, default=0)
