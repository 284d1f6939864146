"""DescribeLogDirs, API key 35: log directories with the partitions and bytes in them (KIP-113).

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  flexible
v3  error_code for the whole answer (KIP-784)
v4  total_bytes and usable_bytes of the volume (KIP-827)
v5  is_cordoned (KIP-1066)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import EachBroker
from minibroker.wire.schema import Bool, Int16, Int32, Int64, PartitionIndex, String, TopicName, field, struct

API_KEY = 35
VERSIONS = (0, 5)
ROUTED_BY = EachBroker(results="results")
AUTHORIZES = (OnCluster((Operation.DESCRIBE,)),)
FLEXIBLE_SINCE = 2


@struct
class Topic:
    topic: TopicName
    partitions: list[PartitionIndex]


@struct
class Request:
    topics: list[Topic] | None  #: null asks for all


@struct
class PartitionResult:
    partition_index: Int32
    partition_size: Int64  #: bytes of all log segments
    offset_lag: Int64  #: high_watermark - log_end_offset if positive; for a future log: behind the current one
    is_future_key: Bool  #: a copy in the making, by AlterReplicaLogDirs


@struct
class TopicResult:
    name: String
    partitions: list[PartitionResult]


@struct
class LogDirResult:
    error_code: Int16  #: KAFKA_STORAGE_ERROR for a directory that is offline
    log_dir: String  #: absolute path
    topics: list[TopicResult]
    total_bytes: Int64 = field(since=4, default=-1)  #: of the volume, tiered storage not counted; -1 unknown
    usable_bytes: Int64 = field(since=4, default=-1)
    is_cordoned: Bool = field(since=5, default=False)  #: takes no new partitions


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(since=3, default=0)
    results: list[LogDirResult]
