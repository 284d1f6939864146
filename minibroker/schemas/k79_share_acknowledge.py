"""ShareAcknowledge, API key 79: acknowledge records that a member of a share group has acquired (KIP-932).

v1  the first stable version, flexible; v0 was Kafka 4.0's early access
v2  acknowledgements that renew the lock, acquisition_lock_timeout_ms (KIP-1222)
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, OnGroup, Operation
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Bool, Int8, Int16, Int32, Int64, PartitionIndex, String, TopicId, field, struct

API_KEY = 79
VERSIONS = (1, 2)
ROUTED_BY = PartitionLeader(names_leader_since=0)
AUTHORIZES = (OnGroup(Operation.READ), EachTopic(Operation.READ))
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
class Request:
    group_id: String | None = field(default=None)
    member_id: String | None
    share_session_epoch: Int32  #: -1 closes the session
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[Topic]


@struct
class CurrentLeader:
    """Kafka's name is LeaderIdAndEpoch."""

    leader_id: Int32 = field(default=0)  #: -1 when there is none
    leader_epoch: Int32 = field(default=0)


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)
    current_leader: CurrentLeader


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
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0)
    responses: list[TopicResult]
    node_endpoints: list[NodeEndpoint]  #: the leaders named with NOT_LEADER_OR_FOLLOWER
