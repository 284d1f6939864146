"""DescribeQuorum, API key 55: leader, voters and observers of the metadata log (KIP-595).

v0  flexible from the start
v1  last_fetch_timestamp, last_caught_up_timestamp (KIP-836)
v2  error messages, nodes, replica_directory_id (KIP-853)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import NIL_UUID, Int16, Int32, Int64, PartitionIndex, String, TopicName, UInt16, Uuid, field, struct

API_KEY = 55
VERSIONS = (0, 2)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.DESCRIBE,)),)
FLEXIBLE_SINCE = 0


@struct
class Partition:
    partition_index: PartitionIndex


@struct
class Topic:
    topic_name: TopicName
    partitions: list[Partition]


@struct
class Request:
    topics: list[Topic]  #: of no other than `__cluster_metadata` anything is known


@struct
class Replica:
    """Kafka's name is ReplicaState."""

    replica_id: Int32
    replica_directory_id: Uuid = field(since=2, default=NIL_UUID)
    log_end_offset: Int64  #: -1 when it is not known
    last_fetch_timestamp: Int64 = field(since=1, default=-1)  #: -1 of the leader and when it is not known
    last_caught_up_timestamp: Int64 = field(since=1, default=-1)  #: of the leader, now


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None = field(since=2, default="")
    leader_id: Int32  #: -1 when there is none
    leader_epoch: Int32
    high_watermark: Int64
    current_voters: list[Replica]
    observers: list[Replica]


@struct
class TopicResult:
    topic_name: TopicName
    partitions: list[PartitionResult]


@struct
class Listener:
    name: String
    host: String
    port: UInt16


@struct
class Node:
    node_id: Int32
    listeners: list[Listener]


@struct
class Response:
    error_code: Int16
    error_message: String | None = field(since=2, default="")
    topics: list[TopicResult]
    nodes: list[Node] = field(since=2, default=())
