"""DescribeProducers, API key 61: the producers that a partition remembers, and their open transactions (KIP-664).

v0  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, Operation
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, String, TopicName, field, struct

API_KEY = 61
VERSIONS = (0, 0)
ROUTED_BY = PartitionLeader(any_replica=True)
AUTHORIZES = (EachTopic(Operation.READ),)
FLEXIBLE_SINCE = 0


@struct
class Topic:
    name: TopicName
    partition_indexes: list[PartitionIndex]


@struct
class Request:
    topics: list[Topic]


@struct
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32  #: 32 bits here, 16 everywhere else
    last_sequence: Int32 = field(default=-1)
    last_timestamp: Int64 = field(default=-1)  #: ms since 1970
    coordinator_epoch: Int32
    current_txn_start_offset: Int64 = field(default=-1)  #: -1 when no transaction is open


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    error_message: String | None = field(default=None)
    active_producers: list[ProducerState]


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
