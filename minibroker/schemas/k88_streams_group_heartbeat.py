"""StreamsGroupHeartbeat, API key 88: a member of a streams group joins, stays alive, receives its tasks and leaves (KIP-1071).

v0  flexible from the start

A task is a subtopology at one partition. Null and -1 in a request mean: as in the last one.
"""

from __future__ import annotations

from minibroker.wire.authorization import OnGroup, Operation, Special
from minibroker.wire.routing import Coordinator, CoordinatorType
from minibroker.wire.schema import Bool, Int8, Int16, Int32, Int64, String, UInt16, field, struct

API_KEY = 88
VERSIONS = (0, 0)
ROUTED_BY = Coordinator(CoordinatorType.GROUP, key="group_id")
AUTHORIZES = (OnGroup(Operation.READ), Special("DESCRIBE of each topic of the topology; CREATE of the cluster or of internal topics"))
FLEXIBLE_SINCE = 0


@struct
class KeyValue:
    key: String
    value: String


@struct
class TopicInfo:
    """A topic that the broker makes for the application."""

    name: String
    partitions: Int32  #: 0: the broker finds out
    replication_factor: Int16  #: 0: as the broker has it
    topic_configs: list[KeyValue]


@struct
class CopartitionGroup:
    """Topics that must have as many partitions as each other, by their places in the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology]


@struct
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class Endpoint:
    host: String
    port: UInt16


@struct
class TaskOffset:
    """A sum of offsets in the changelogs of a task."""

    subtopology_id: String
    partition: Int32
    offset: Int64


@struct
class Request:
    group_id: String
    member_id: String  #: the member chooses it
    member_epoch: Int32  #: 0 joins, -1 leaves, -2 is a static member that leaves and means to come back
    endpoint_information_epoch: Int32  #: of the partitions by endpoint that the member last received
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    rebalance_timeout_ms: Int32 = field(default=-1)  #: how long the member may take to give up tasks
    topology: Topology | None = field(default=None)  #: of who joins
    active_tasks: list[TaskIds] | None = field(default=None)  #: what the member owns at the moment
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: String | None = field(default=None)  #: of the instance, which may be several members
    user_endpoint: Endpoint | None = field(default=None)  #: for interactive queries
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: Bool = field(default=False)  #: all members must shut down


@struct
class Status:
    status_code: (
        Int8  #: 0 stale topology, 1 missing source topics, 2 incorrectly partitioned, 3 missing internal topics, 4 shutdown, 5 delayed
    )
    status_detail: String


@struct
class TopicPartition:
    """Partitions of one topic."""

    topic: String
    partitions: list[Int32]


@struct
class EndpointToPartitions:
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None = field(default=None)
    member_id: String
    member_epoch: Int32
    heartbeat_interval_ms: Int32
    acceptable_recovery_lag: Int32
    task_offset_interval_ms: Int32
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = field(default=None)  #: null: unchanged
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    endpoint_information_epoch: Int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)  #: null: unchanged
