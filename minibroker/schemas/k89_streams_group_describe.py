"""StreamsGroupDescribe, API key 89: state, topology, members and tasks of streams groups (KIP-1071).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Bool, Int16, Int32, Int64, String, UInt16, field, struct

API_KEY = 89
VERSIONS = (0, 0)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="group_ids", results="groups")
AUTHORIZES = (Special("DESCRIBE of each group, and of the topics of its topology"),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    group_ids: list[String]
    include_authorized_operations: Bool


@struct
class KeyValue:
    key: String
    value: String


@struct
class TopicInfo:
    """A topic that the broker makes for the application."""

    name: String
    partitions: Int32  #: 0: not known yet
    replication_factor: Int16  #: 0: as the broker has it
    topic_configs: list[KeyValue]


@struct
class Subtopology:
    subtopology_id: String
    source_topics: list[String]
    repartition_sink_topics: list[String]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


@struct
class Topology:
    epoch: Int32
    subtopologies: list[Subtopology] | None = field(default=None)


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
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class Assignment:
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


@struct
class Member:
    member_id: String
    member_epoch: Int32
    instance_id: String | None = field(default=None)
    rack_id: String | None = field(default=None)
    client_id: String
    client_host: String  #: "/127.0.0.1"
    topology_epoch: Int32
    process_id: String
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment  #: what it has
    target_assignment: Assignment  #: its target
    is_classic: Bool


@struct
class Group:
    error_code: Int16
    error_message: String | None = field(default=None)
    group_id: String
    group_state: String  #: "Empty", "NotReady", "Assigning", "Reconciling", "Stable"
    group_epoch: Int32
    assignment_epoch: Int32
    topology: Topology | None = field(default=None)
    members: list[Member]
    authorized_operations: Int32 = field(default=-(2**31))  #: bit n is AclOperation n; the default: not requested


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    groups: list[Group]
