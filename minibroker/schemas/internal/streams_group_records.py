"""Records of `__consumer_offsets`: streams groups of KIP-1071. Keys and values have only v0; only values are flexible.

A task is a subtopology at one partition. Type 18 was never released.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, Int16, Int32, Int64, String, UInt16, field, struct


@struct
class StreamsGroupMetadataKey:
    """Record type 17."""

    group_id: String


@struct
class AssignmentConfig:
    """Kafka's name is LastAssignmentConfig."""

    key: String
    value: String


@struct
class StreamsGroupMetadataValue:
    """The group's epoch, which grows when members, topics or settings change."""

    epoch: Int32
    metadata_hash: Int64  #: of all topics of the topology
    validated_topology_epoch: Int32 = field(tag=0, default=-1)  #: -1 while topics are missing, or partitioned in a wrong way
    last_assignment_configs: list[AssignmentConfig] | None = field(tag=1, default=())


@struct
class StreamsGroupMemberMetadataKey:
    """Record type 19."""

    group_id: String
    member_id: String


@struct
class MemberEndpoint:
    """Kafka's name is Endpoint."""

    host: String
    port: UInt16


@struct
class MemberTag:
    """Kafka's name is KeyValue."""

    key: String
    value: String


@struct
class StreamsGroupMemberMetadataValue:
    """The metadata that a member sent; a tombstone after it has left."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    rebalance_timeout_ms: Int32 = field(default=-1)
    topology_epoch: Int32
    process_id: String
    user_endpoint: MemberEndpoint | None = field(default=None)
    client_tags: list[MemberTag]


@struct
class StreamsGroupTargetAssignmentMetadataKey:
    """Record type 20."""

    group_id: String


@struct
class StreamsGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)  #: ms since 1970


@struct
class StreamsGroupTargetAssignmentMemberKey:
    """Record type 21."""

    group_id: String
    member_id: String


@struct
class TargetTasks:
    """Tasks of one subtopology; Kafka's name is TaskIds."""

    subtopology_id: String
    partitions: list[Int32]


@struct
class StreamsGroupTargetAssignmentMemberValue:
    """A member's target assignment."""

    active_tasks: list[TargetTasks]
    standby_tasks: list[TargetTasks]
    warmup_tasks: list[TargetTasks]


@struct
class StreamsGroupCurrentMemberAssignmentKey:
    """Record type 22."""

    group_id: String
    member_id: String


@struct
class CurrentTasks:
    """Tasks of one subtopology; Kafka's name is TaskIds."""

    subtopology_id: String
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default=())  #: the epoch since when each is the member's; of active ones alone


@struct
class StreamsGroupCurrentMemberAssignmentValue:
    """What a member has, and how far it is with its target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8  #: 1 STABLE, 2 UNREVOKED_TASKS, 3 UNRELEASED_TASKS, 127 UNKNOWN
    active_tasks: list[CurrentTasks]
    standby_tasks: list[CurrentTasks]
    warmup_tasks: list[CurrentTasks]
    active_tasks_pending_revocation: list[CurrentTasks]
    standby_tasks_pending_revocation: list[CurrentTasks]
    warmup_tasks_pending_revocation: list[CurrentTasks]


@struct
class StreamsGroupTopologyKey:
    """Record type 23."""

    group_id: String


@struct
class TopicConfig:
    """A setting of a topic."""

    key: String
    value: String


@struct
class TopologyTopic:
    """A topic that the broker creates for the application; Kafka's name is TopicInfo."""

    name: String
    partitions: Int32  #: 0: as many as its source has
    replication_factor: Int16  #: 0: as the broker has it
    topic_configs: list[TopicConfig]


@struct
class CopartitionGroup:
    """Topics that must have as many partitions as each other, by their places in the lists of the subtopology."""

    source_topics: list[Int16]
    source_topic_regex: list[Int16]
    repartition_source_topics: list[Int16]


@struct
class Subtopology:
    """A part of the application that has tasks of its own."""

    subtopology_id: String
    source_topics: list[String]
    source_topic_regex: list[String]
    state_changelog_topics: list[TopologyTopic]
    repartition_sink_topics: list[String]
    repartition_source_topics: list[TopologyTopic]
    copartition_groups: list[CopartitionGroup]


@struct
class StreamsGroupTopologyValue:
    """What the application reads, keeps and writes in between."""

    epoch: Int32
    subtopologies: list[Subtopology]
