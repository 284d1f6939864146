"""OffsetForLeaderEpoch, API key 23: where a leader epoch ended, to find out whether a log was truncated (KIP-101, KIP-320).

v2  current_leader_epoch fences readers with old metadata
v3  replica_id, with -2 for a debugging consumer that may look beyond the high watermark
v4  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import PartitionLeader
from minibroker.wire.schema import Int16, Int32, Int64, PartitionIndex, TopicName, field, struct

API_KEY = 23
VERSIONS = (2, 4)
ROUTED_BY = PartitionLeader(fences=True)
AUTHORIZES = (Special("CLUSTER_ACTION, or DESCRIBE of each topic"),)
FLEXIBLE_SINCE = 4


@struct
class Partition:
    partition: PartitionIndex
    current_leader_epoch: Int32 = field(default=-1)  #: -1 asks for no fencing
    leader_epoch: Int32  #: the epoch to look up


@struct
class Topic:
    topic: TopicName
    partitions: list[Partition]


@struct
class Request:
    replica_id: Int32 = field(since=3, default=-2)  #: -1 for a consumer
    topics: list[Topic]


@struct
class PartitionResult:
    error_code: Int16
    partition: PartitionIndex
    leader_epoch: Int32 = field(default=-1)  #: the largest epoch not above the requested one, -1 if there is none
    end_offset: Int64 = field(default=-1)  #: one past the last record of that epoch


@struct
class TopicResult:
    topic: TopicName
    partitions: list[PartitionResult]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
