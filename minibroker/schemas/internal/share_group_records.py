"""Records of `__consumer_offsets`: share groups of KIP-932. Keys and values have only v0; only values are flexible.

The states of the records that a share group has read are kept in `__share_group_state`.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, Int32, Int64, String, Uuid, field, struct


@struct
class ShareGroupMemberMetadataKey:
    """Record type 10."""

    group_id: String
    member_id: String


@struct
class ShareGroupMemberMetadataValue:
    """The metadata that a member sent; a tombstone after it has left."""

    rack_id: String | None
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]


@struct
class ShareGroupMetadataKey:
    """Record type 11."""

    group_id: String


@struct
class ShareGroupMetadataValue:
    """The group's epoch, which grows when members or topics change."""

    epoch: Int32
    metadata_hash: Int64  #: of all topics that the group is subscribed to


@struct
class ShareGroupTargetAssignmentMetadataKey:
    """Record type 12."""

    group_id: String


@struct
class ShareGroupTargetAssignmentMetadataValue:
    """The group epoch that the target assignment was made for."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(tag=0, default=0)  #: ms since 1970


@struct
class ShareGroupTargetAssignmentMemberKey:
    """Record type 13."""

    group_id: String
    member_id: String


@struct
class TargetPartitions:
    """Partitions of one topic; Kafka's name is TopicPartition."""

    topic_id: Uuid
    partitions: list[Int32]


@struct
class ShareGroupTargetAssignmentMemberValue:
    """A member's target assignment. Several members may have the same partitions."""

    topic_partitions: list[TargetPartitions]


@struct
class ShareGroupCurrentMemberAssignmentKey:
    """Record type 14."""

    group_id: String
    member_id: String


@struct
class AssignedPartitions:
    """Partitions of one topic; Kafka's name is TopicPartitions."""

    topic_id: Uuid
    partitions: list[Int32]


@struct
class ShareGroupCurrentMemberAssignmentValue:
    """A member's current assignment."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8  #: 0 STABLE, the only one
    assigned_partitions: list[AssignedPartitions]


@struct
class ShareGroupStatePartitionMetadataKey:
    """Record type 15."""

    group_id: String


@struct
class StatePartitions:
    """Partitions of one topic; Kafka's name is TopicPartitionsInfo."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class StateTopic:
    """Kafka's name is TopicInfo."""

    topic_id: Uuid
    topic_name: String


@struct
class ShareGroupStatePartitionMetadataValue:
    """Which partitions have a state in `__share_group_state`, or are about to get or lose one."""

    initializing_topics: list[StatePartitions]
    initialized_topics: list[StatePartitions]
    deleting_topics: list[StateTopic]
