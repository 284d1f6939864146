"""Records of `__consumer_offsets`: consumer groups of KIP-848. Keys and values have only v0; only values are flexible.

A member's target assignment is what it should get, its current assignment what it has so far.
"""

from __future__ import annotations

from minibroker.wire.schema import Bytes, Int8, Int32, Int64, String, Uuid, field, struct


@struct
class ConsumerGroupMetadataKey:
    """Record type 3."""

    group_id: String


@struct
class ConsumerGroupMetadataValue:
    """The group's epoch, which grows when members or topics change."""

    epoch: Int32
    metadata_hash: Int64 = field(tag=0, default=0)  #: of all topics that the group is subscribed to


@struct
class ConsumerGroupPartitionMetadataKey:
    """Record type 4, which Kafka 4.1 replaced by metadata_hash; Kafka still reads it and writes tombstones of it."""

    group_id: String


@struct
class PartitionRacks:
    """Where the replicas of a partition are; Kafka's name is PartitionMetadata."""

    partition: Int32
    racks: list[String]


@struct
class SubscribedTopic:
    """A topic when the group last used its metadata; Kafka's name is TopicMetadata."""

    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: list[PartitionRacks]


@struct
class ConsumerGroupPartitionMetadataValue:
    """The topics that the group is subscribed to."""

    topics: list[SubscribedTopic]


@struct
class ConsumerGroupMemberMetadataKey:
    """Record type 5."""

    group_id: String
    member_id: String


@struct
class ClassicProtocol:
    """A protocol that a classic member offers."""

    name: String
    metadata: Bytes


@struct
class ClassicMemberMetadata:
    """What only a member has that speaks the classic protocol to a new group."""

    session_timeout_ms: Int32 = field(default=0)
    supported_protocols: list[ClassicProtocol] = field(default=())


@struct
class ConsumerGroupMemberMetadataValue:
    """The metadata that a member sent; a tombstone after it has left."""

    instance_id: String | None
    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None
    rebalance_timeout_ms: Int32 = field(default=-1)
    server_assignor: String | None
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, default=ClassicMemberMetadata)  #: null: a new member


@struct
class ConsumerGroupTargetAssignmentMetadataKey:
    """Record type 6."""

    group_id: String


@struct
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)  #: ms since 1970


@struct
class ConsumerGroupTargetAssignmentMemberKey:
    """Record type 7."""

    group_id: String
    member_id: String


@struct
class TargetPartitions:
    """Partitions of one topic; Kafka's name is TopicPartition."""

    topic_id: Uuid
    partitions: list[Int32]


@struct
class ConsumerGroupTargetAssignmentMemberValue:
    """A member's target assignment."""

    topic_partitions: list[TargetPartitions]


@struct
class ConsumerGroupCurrentMemberAssignmentKey:
    """Record type 8."""

    group_id: String
    member_id: String


@struct
class AssignedPartitions:
    """Partitions of one topic; Kafka's name is TopicPartitions."""

    topic_id: Uuid
    partitions: list[Int32]
    assignment_epochs: list[Int32] | None = field(tag=0, default=())  #: the epoch since when each is the member's


@struct
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member has, and how far it is with its target."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8  #: 0 STABLE, 1 UNREVOKED_PARTITIONS, 2 UNRELEASED_PARTITIONS, 127 UNKNOWN
    assigned_partitions: list[AssignedPartitions]
    partitions_pending_revocation: list[AssignedPartitions]


@struct
class ConsumerGroupRegularExpressionKey:
    """Record type 16."""

    group_id: String
    regular_expression: String


@struct
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression of a member stood for."""

    topics: list[String]
    version: Int64  #: offset of the metadata image that it was resolved against
    timestamp: Int64  #: ms since 1970
