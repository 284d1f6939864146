"""ListOffsets, API key 2: offsets of partitions by timestamp or by name.

v0   up to max_num_offsets start offsets of segments, by the time of the last write to each
v1   one offset with its timestamp for each partition
v2   isolation_level; throttle_time_ms (KIP-98)
v3   answer carries throttle_time_ms before the quota delay, not after it
v4   current_leader_epoch fences, leader_epoch of the offset found (KIP-320)
v5   OFFSET_NOT_AVAILABLE may be answered (KIP-207)
v6   flexible
v7   timestamp -3, the record with the largest timestamp (KIP-734)
v8   timestamp -4, the earliest offset on local disk (KIP-405)
v9   timestamp -5, the last offset in tiered storage (KIP-1005)
v10  timeout_ms for look-ups in tiered storage (KIP-1075)
v11  timestamp -6, the earliest offset still to be tiered (KIP-1023)
"""

from __future__ import annotations

from minibroker.wire.authorization import EachTopic, Operation
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Int8, Int16, Int32, Int64, PartitionIndex, TopicName, field, struct

API_KEY = 2
VERSIONS = (0, 11)
ROUTED_BY = PartitionLeader(fences=True)
AUTHORIZES = (EachTopic(Operation.DESCRIBE),)
FLEXIBLE_SINCE = 6


@struct
class Partition:
    partition_index: PartitionIndex
    current_leader_epoch: Int32 = field(since=4, default=-1)  #: -1 asks for no fencing
    timestamp: Int64  #: ms since 1970 for the first record at or after it; -1 latest, -2 earliest, -3 to -6 above
    max_num_offsets: Int32 = field(until=0, default=1)


@struct
class Topic:
    name: TopicName
    partitions: list[Partition]


@struct
class Request:
    replica_id: Int32  #: -1 for a consumer
    isolation_level: Int8 = field(since=2, default=0)  #: 0 read_uncommitted, 1 read_committed
    topics: list[Topic]
    timeout_ms: Int32 = field(since=10, default=0)


@struct
class PartitionResult:
    partition_index: PartitionIndex
    error_code: Int16
    old_style_offsets: list[Int64] = field(until=0, default=())  #: the largest first
    timestamp: Int64 = field(since=1, default=-1)  #: of the record found by timestamp, else -1
    offset: Int64 = field(since=1, default=-1)  #: -1 when no record is that late
    leader_epoch: Int32 = field(since=4, default=-1)


@struct
class TopicResult:
    name: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(since=2, default=0)
    topics: list[TopicResult]
