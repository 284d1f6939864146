"""ShareFetch, API key 78: acquire records for a member of a share group, and acknowledge earlier ones (KIP-932).

v1  the first stable version, flexible; v0 was Kafka 4.0's early access
v2  share_acquire_mode (KIP-1206), acknowledgements that renew the lock (KIP-1222)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation, Special
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Bool, Int8, Int16, Int32, Int64, PartitionIndex, Records, String, TopicId, Uuid, field, struct

API_KEY = 78
VERSIONS = (1, 2)
ROUTED_BY = PartitionLeader(names_leader_since=0)
AUTHORIZES = (OnGroup(Operation.READ), Special("READ of each topic, also of the session"))
FLEXIBLE_SINCE = 0


@struct
class AcknowledgementBatch:
    first_offset: Int64
    last_offset: Int64  #: inclusive
    acknowledge_types: list[Int8]  #: 0 gap, 1 accept, 2 release, 3 reject, 4 renew; one for all or one an offset


@struct
class Partition:
    partition_index: PartitionIndex
    acknowledgement_batches: list[AcknowledgementBatch]


@struct
class Topic:
    topic_id: TopicId
    partitions: list[Partition]


@struct
class ForgottenTopic:
    topic_id: Uuid
    partitions: list[Int32]


@struct
class Request:
    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32  #: 0 opens a session, -1 closes it
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = field(default=0x7FFFFFFF)
    max_records: Int32  #: may be exceeded to the end of a batch
    batch_size: Int32  #: of records, that the acquired ones are best divided into
    share_acquire_mode: Int8 = field(since=2, default=0)  #: 0 whole batches, 1 never above max_records
    is_renew_ack: Bool = field(since=2, default=False)  #: some acknowledgement renews; then nothing is fetched
    topics: list[Topic]
    forgotten_topics_data: list[ForgottenTopic]


@struct
class CurrentLeader:
    """Kafka's name is LeaderIdAndEpoch."""

    leader_id: Int32 = field(default=0)  #: -1 when there is none
    leader_epoch: Int32 = field(default=0)


@struct
class AcquiredRecords:
    first_offset: Int64
    last_offset: Int64  #: inclusive
    delivery_count: Int16


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)
    acknowledge_error_code: Int16
    acknowledge_error_message: String | None = field(default=None)
    current_leader: CurrentLeader
    records: Records
    acquired_records: list[AcquiredRecords]  #: those of `records` that are the member's now


@struct
class TopicResult:
    topic_id: TopicId
    partitions: list[PartitionResult]


@struct
class NodeEndpoint:
    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    acquisition_lock_timeout_ms: Int32
    responses: list[TopicResult]
    node_endpoints: list[NodeEndpoint]  #: the leaders named with NOT_LEADER_OR_FOLLOWER
