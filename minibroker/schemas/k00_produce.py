"""Produce, API key 0: append record batches to partitions.

v0   answer without throttle_time_ms; a message set of format v0 or v1 (v1 from Produce 2 on), which the broker converts
v1   throttle_time_ms
v2   log_append_time_ms (KIP-32)
v3   transactional_id; batches of message format v2 (KIP-98)
v4   KAFKA_STORAGE_ERROR may be answered
v5   log_start_offset, so that a producer can tell deleted records from lost ones
v6   answer carries throttle_time_ms before the quota delay, not after it
v7   zstd is allowed (KIP-110)
v8   record_errors and error_message name the invalid records of a batch (KIP-467)
v9   flexible
v10  current_leader and node_endpoints, for clients that sent the request to the wrong broker (KIP-951)
v11  TRANSACTION_ABORTABLE may be answered (KIP-890)
v12  in a transaction, the request also adds its partitions to it; needs transaction.version=2 (KIP-890)
v13  topics by topic_id instead of by name (KIP-516)

With acks=0 there is no response at all.
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import NIL_UUID, Int16, Int32, Int64, PartitionIndex, Records, String, TopicId, TopicName, field, struct

API_KEY = 0
VERSIONS = (0, 13)
ROUTED_BY = PartitionLeader(names_leader_since=10)
AUTHORIZES = (Special("WRITE of the transactional id if records are transactional; WRITE of each topic"),)
FLEXIBLE_SINCE = 9


@struct
class Partition:
    index: PartitionIndex
    records: Records | None  #: one record batch, below v3 a message set; null is refused by the broker, not by the wire format


@struct
class Topic:
    name: TopicName = field(until=12, default="")
    topic_id: TopicId = field(since=13, default=NIL_UUID)
    partition_data: list[Partition]


@struct
class Request:
    transactional_id: String | None = field(since=3, default=None)
    acks: (
        Int16  #: who must have the records before the answer: 0 no broker, 1 the leader, -1 every in-sync replica; other values are invalid
    )
    timeout_ms: Int32  #: how long to wait for the other replicas
    topic_data: list[Topic]


@struct
class RecordError:
    batch_index: Int32  #: position of the record in its batch, from 0
    batch_index_error_message: String | None = field(default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


@struct
class PartitionResult:
    index: PartitionIndex
    error_code: Int16
    base_offset: Int64  #: offset given to the first record, -1 on error
    log_append_time_ms: Int64 = field(since=2, default=-1)  #: -1 when the topic keeps the producer's timestamps
    log_start_offset: Int64 = field(since=5, default=-1)
    record_errors: list[RecordError] = field(since=8, default=())
    error_message: String | None = field(since=8, default=None)
    current_leader: LeaderIdAndEpoch = field(since=10, tag=0, default=LeaderIdAndEpoch)


@struct
class TopicResult:
    name: TopicName = field(until=12, default="")
    topic_id: TopicId = field(since=13, default=NIL_UUID)
    partition_responses: list[PartitionResult]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)


@struct
class Response:
    responses: list[TopicResult]
    throttle_time_ms: Int32 = field(since=1, default=0)
    node_endpoints: list[NodeEndpoint] = field(since=10, tag=0, default=())  #: the leaders named in current_leader
