"""Fetch, API key 1: read record batches, and wait for them if requested.

v0   message sets of format v0; what does not fit is cut off in the middle of a message
v1   throttle_time_ms
v2   message sets of format v1, with timestamps (KIP-32)
v3   max_bytes for the whole answer; at least one message whole (KIP-74)
v4   isolation_level, last_stable_offset, aborted_transactions; batches of message format v2 (KIP-98)
v5   log_start_offset on both sides (KIP-107)
v6   KAFKA_STORAGE_ERROR may be answered
v7   fetch sessions: session_id, session_epoch, forgotten_topics_data, a top-level error_code (KIP-227)
v8   answer carries throttle_time_ms before the quota delay, not after it
v9   current_leader_epoch fences readers with old metadata (KIP-320)
v10  the client can read zstd (KIP-110); Apache Kafka 4 sends such batches to every version
v11  rack_id, preferred_read_replica: reading from a follower nearby (KIP-392)
v12  flexible; last_fetched_epoch, diverging_epoch: truncation found while fetching (KIP-595)
v13  topics by topic_id instead of by name (KIP-516)
v14  OFFSET_MOVED_TO_TIERED_STORAGE may be answered (KIP-405)
v15  replica_state replaces replica_id (KIP-903)
v16  node_endpoints (KIP-951)
v17  replica_directory_id (KIP-853)
v18  high_watermark that a replica already knows, so that the leader answers when it changes (KIP-1166)

Partitions are served in the order of the request. From v3 on max_bytes and partition_max_bytes are not absolute: the first batch of
the first partition that has data is always returned whole (KIP-74).
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import (
    NIL_UUID,
    Int8,
    Int16,
    Int32,
    Int64,
    PartitionIndex,
    Records,
    String,
    TopicId,
    TopicName,
    Uuid,
    field,
    struct,
)

API_KEY = 1
VERSIONS = (0, 18)
ROUTED_BY = PartitionLeader(fences=True, names_leader_since=16)
AUTHORIZES = (Special("READ of each topic; CLUSTER_ACTION of a replica"),)
FLEXIBLE_SINCE = 12


@struct
class ReplicaState:
    replica_id: Int32 = field(default=-1)  #: -1 for a consumer
    replica_epoch: Int64 = field(default=-1)


@struct
class Partition:
    partition: PartitionIndex
    current_leader_epoch: Int32 = field(since=9, default=-1)  #: -1 asks for no fencing
    fetch_offset: Int64
    last_fetched_epoch: Int32 = field(since=12, default=-1)  #: -1 when nothing was fetched yet, or not tracked
    log_start_offset: Int64 = field(since=5, default=-1)  #: of a follower; -1 from a consumer
    partition_max_bytes: Int32
    replica_directory_id: Uuid = field(since=17, tag=0, default=NIL_UUID)
    high_watermark: Int64 = field(since=18, tag=1, default=2**63 - 1)  #: -1 unknown; the default: the replica does not track it


@struct
class Topic:
    topic: TopicName = field(until=12, default="")
    topic_id: TopicId = field(since=13, default=NIL_UUID)
    partitions: list[Partition]


@struct
class ForgottenTopic:
    topic: String = field(until=12, default="")
    topic_id: Uuid = field(since=13, default=NIL_UUID)
    partitions: list[Int32]


@struct
class Request:
    cluster_id: String | None = field(since=12, tag=0, default=None)  #: sent by KRaft replicas only
    replica_id: Int32 = field(until=14, default=-1)  #: -1 for a consumer
    replica_state: ReplicaState = field(since=15, tag=1, default=ReplicaState)
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(since=3, default=2**31 - 1)
    isolation_level: Int8 = field(since=4, default=0)  #: 0 read_uncommitted, 1 read_committed
    session_id: Int32 = field(since=7, default=0)  #: 0 when there is no session yet
    session_epoch: Int32 = field(since=7, default=-1)  #: 0 opens a session, -1 closes it or asks for none, else counts up
    topics: list[Topic]  #: within a session: what is new or has changed
    forgotten_topics_data: list[ForgottenTopic] = field(since=7, default=())  #: partitions to take out of the session
    rack_id: String = field(since=11, default="")


@struct
class EpochEndOffset:
    epoch: Int32 = field(default=-1)
    end_offset: Int64 = field(default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)


@struct
class SnapshotId:
    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


@struct
class AbortedTransaction:
    producer_id: Int64
    first_offset: Int64


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    high_watermark: Int64
    last_stable_offset: Int64 = field(since=4, default=-1)  #: all transactions below it are decided
    log_start_offset: Int64 = field(since=5, default=-1)
    diverging_epoch: EpochEndOffset = field(since=12, tag=0, default=EpochEndOffset)  #: records beyond it differ from the leader's
    current_leader: LeaderIdAndEpoch = field(since=12, tag=1, default=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(since=12, tag=2, default=SnapshotId)  #: for replicas that ask below log_start_offset
    aborted_transactions: list[AbortedTransaction] | None = field(since=4, default=())  #: within the records; null: read_uncommitted
    preferred_read_replica: Int32 = field(since=11, default=-1)
    records: Records | None


@struct
class TopicResult:
    topic: TopicName = field(until=12, default="")
    topic_id: TopicId = field(since=13, default=NIL_UUID)
    partitions: list[PartitionResult]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(since=1, default=0)
    error_code: Int16 = field(since=7, default=0)  #: of the session, not of a partition
    session_id: Int32 = field(since=7, default=0)  #: 0 when the fetch is not part of a session
    responses: list[TopicResult]  #: within a session: what has data, an error or changed offsets
    node_endpoints: list[NodeEndpoint] = field(since=16, tag=0, default=())  #: the leaders named in current_leader
