"""TxnOffsetCommit, API key 28: offsets of a group that count once the transaction commits.

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  committed_leader_epoch (KIP-320)
v3  flexible; member_id, group_instance_id and generation_id, so that a member that left is fenced (KIP-447)
v4  TRANSACTION_ABORTABLE may be answered (KIP-890)
v5  the coordinator adds the group to the transaction, no AddOffsetsToTxn before it (KIP-890, transaction.version 2)
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, OnGroup, OnTransactionalId, Operation
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, String, TopicName, field, struct

API_KEY = 28
VERSIONS = (0, 5)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnTransactionalId(Operation.WRITE), OnGroup(Operation.READ), EachTopic(Operation.READ))
FLEXIBLE_SINCE = 3


@struct
class Partition:
    partition_index: PartitionIndex
    committed_offset: Int64  #: the next offset to read
    committed_leader_epoch: Int32 = field(since=2, default=-1)
    committed_metadata: String | None


@struct
class Topic:
    name: TopicName
    partitions: list[Partition]


@struct
class Request:
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Int32 = field(since=3, default=-1)  #: -1 with an empty member_id: not fenced by the group
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, default=None)
    topics: list[Topic]


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
