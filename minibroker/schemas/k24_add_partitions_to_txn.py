"""AddPartitionsToTxn, API key 24: partitions that a transaction is about to write to.

v0  one transaction; clients of Kafka 4 at transaction.version 2 do not send it, Produce adds partitions itself (KIP-890)
v1  answer carries throttle_time_ms before the quota delay, not after it
v2  PRODUCER_FENCED may be answered (KIP-588)
v3  flexible
v4  several transactions, verify_only; only brokers use it, to verify batches before they append them
v5  TRANSACTION_ABORTABLE may be answered (KIP-890)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Bool, Int16, Int32, Int64, PartitionIndex, String, TopicName, field, struct

API_KEY = 24
VERSIONS = (0, 5)
ROUTED_BY = CoordinatorOfEach(
    CoordinatorType.TRANSACTION,
    keys="transactions",
    results="results_by_transaction",
    key="transactional_id",
    single_key="v3_and_below_transactional_id",
)
AUTHORIZES = (Special("WRITE of the transactional id and of each topic; CLUSTER_ACTION for several transactions"),)
FLEXIBLE_SINCE = 3


@struct
class Topic:
    name: TopicName
    partitions: list[PartitionIndex]


@struct
class Transaction:
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = field(default=False)  #: ask whether the partitions are in it, add none
    topics: list[Topic]


@struct
class Request:
    transactions: list[Transaction] = field(since=4, default=())
    v3_and_below_transactional_id: String = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: list[Topic] = field(until=3, default=())


@struct
class PartitionResult:
    partition_index: PartitionIndex
    partition_error_code: Int16


@struct
class TopicResult:
    name: TopicName
    results_by_partition: list[PartitionResult]


@struct
class TransactionResult:
    transactional_id: String
    topic_results: list[TopicResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=4, default=0)
    results_by_transaction: list[TransactionResult] = field(since=4, default=())
    results_by_topic_v3_and_below: list[TopicResult] = field(until=3, default=())
