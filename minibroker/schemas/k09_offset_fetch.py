"""OffsetFetch, API key 9: read the committed offsets of groups.

v1   the oldest version of Kafka 4; one group and its topics
v2   null asks for all topics; error_code for the whole answer
v3   throttle_time_ms
v4   answer carries throttle_time_ms before the quota delay, not after it
v5   committed_leader_epoch (KIP-320)
v6   flexible
v7   require_stable: UNSTABLE_OFFSET_COMMIT for offsets of an open transaction (KIP-447)
v8   several groups (KIP-709)
v9   member_id and member_epoch of new groups (KIP-848)
v10  topic_id instead of name
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import NIL_UUID, Bool, Int16, Int32, Int64, PartitionIndex, String, TopicId, TopicName, field, struct

API_KEY = 9
VERSIONS = (1, 10)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="groups", results="groups", key="group_id", single_key="group_id")
AUTHORIZES = (Special("DESCRIBE of each group; DESCRIBE of each topic"),)
FLEXIBLE_SINCE = 6


@struct
class Topic:
    """Up to v7."""

    name: TopicName
    partition_indexes: list[PartitionIndex]


@struct
class GroupTopic:
    """From v8 on; Kafka's name is OffsetFetchRequestTopics."""

    name: TopicName = field(until=9, default="")
    topic_id: TopicId = field(since=10, default=NIL_UUID)
    partition_indexes: list[PartitionIndex]


@struct
class Group:
    group_id: String
    member_id: String | None = field(since=9, default=None)
    member_epoch: Int32 = field(since=9, default=-1)
    topics: list[GroupTopic] | None  #: null asks for all


@struct
class Request:
    group_id: String = field(until=7, default="")
    topics: list[Topic] | None = field(until=7, nullable=2, default=())  #: null asks for all
    groups: list[Group] = field(since=8, default=())
    require_stable: Bool = field(since=7, default=False)


@struct
class PartitionResult:
    """Up to v7."""

    partition_index: PartitionIndex
    committed_offset: Int64  #: -1 when there is none
    committed_leader_epoch: Int32 = field(since=5, default=-1)
    metadata: String | None
    error_code: Int16


@struct
class TopicResult:
    """Up to v7."""

    name: TopicName
    partitions: list[PartitionResult]


@struct
class GroupPartitionResult:
    """From v8 on; Kafka's name is OffsetFetchResponsePartitions."""

    partition_index: PartitionIndex
    committed_offset: Int64  #: -1 when there is none
    committed_leader_epoch: Int32 = field(default=-1)
    metadata: String | None
    error_code: Int16


@struct
class GroupTopicResult:
    """From v8 on; Kafka's name is OffsetFetchResponseTopics."""

    name: TopicName = field(until=9, default="")
    topic_id: TopicId = field(since=10, default=NIL_UUID)
    partitions: list[GroupPartitionResult]


@struct
class GroupResult:
    group_id: String
    topics: list[GroupTopicResult]
    error_code: Int16 = field(default=0)


@struct
class Response:
    throttle_time_ms: Int32 = field(since=3, default=0)
    topics: list[TopicResult] = field(until=7, default=())
    error_code: Int16 = field(since=2, until=7, default=0)
    groups: list[GroupResult] = field(since=8, default=())
