"""CreateTopics, API key 19: create topics with their partitions and configs.

v2  throttle_time_ms; validate_only and error_message are there already
v3  answer carries throttle_time_ms before the quota delay, not after it
v4  num_partitions and replication_factor may be -1, the broker's default (KIP-464)
v5  flexible; the answer describes the created topics with their configs (KIP-525)
v6  THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)
v7  topic_id (KIP-516)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import NIL_UUID, Bool, Int8, Int16, Int32, String, TopicId, TopicName, field, struct

API_KEY = 19
VERSIONS = (2, 7)
ROUTED_BY = Controller()
AUTHORIZES = (Special("CREATE of the cluster, or of each topic; DESCRIBE_CONFIGS for the configs in the answer"),)
FLEXIBLE_SINCE = 5


@struct
class Assignment:
    partition_index: Int32
    broker_ids: list[Int32]


@struct
class Config:
    name: String
    value: String | None


@struct
class Topic:
    name: TopicName
    num_partitions: Int32  #: -1 with assignments, or for the broker's num.partitions
    replication_factor: Int16  #: -1 with assignments, or for the broker's default.replication.factor
    assignments: list[Assignment]  #: empty: the broker chooses
    configs: list[Config]


@struct
class Request:
    topics: list[Topic]
    timeout_ms: Int32 = field(default=60000)
    validate_only: Bool = field(default=False)


@struct
class ConfigResult:
    name: String
    value: String | None
    read_only: Bool
    config_source: Int8 = field(default=-1)  #: as in DescribeConfigs
    is_sensitive: Bool


@struct
class TopicResult:
    name: TopicName
    topic_id: TopicId = field(since=7, default=NIL_UUID)
    error_code: Int16
    error_message: String | None
    topic_config_error_code: Int16 = field(since=5, tag=0, default=0)  #: why configs is null
    num_partitions: Int32 = field(since=5, default=-1)
    replication_factor: Int16 = field(since=5, default=-1)
    configs: list[ConfigResult] | None = field(since=5, default=())


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    topics: list[TopicResult]
