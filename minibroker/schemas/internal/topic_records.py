"""Metadata records about topics and their partitions.

PartitionRecord, PartitionChangeRecord
  v1  directories: the log directory of each replica (KIP-858)
  v2  eligible leader replicas (KIP-966)

Every record is flexible from v0.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, Int32, String, Uuid, field, struct


@struct
class TopicRecord:
    """A topic is created; a PartitionRecord for each of its partitions follows."""

    name: String
    topic_id: Uuid


@struct
class RemoveTopicRecord:
    """A topic was deleted, with its partitions."""

    topic_id: Uuid


@struct
class PartitionRecord:
    """The whole state of one partition, when it is created or in a snapshot."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    replicas: list[Int32]  #: broker ids, the preferred leader first
    isr: list[Int32]
    removing_replicas: list[Int32]
    adding_replicas: list[Int32]
    leader: Int32 = field(default=-1)  #: -1 when there is none
    leader_recovery_state: Int8 = field(tag=0, default=0)  #: 1 while recovering from an unclean election
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)  #: raised by every change of the partition
    directories: list[Uuid] = field(since=1, default=())  #: log directory ids in the order of replicas
    eligible_leader_replicas: list[Int32] | None = field(since=2, tag=1, default=None)
    last_known_elr: list[Int32] | None = field(since=2, tag=2, default=None)


@struct
class PartitionChangeRecord:
    """What has changed in one partition; a field at its default has not."""

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    isr: list[Int32] | None = field(tag=0, default=None)
    leader: Int32 = field(tag=1, default=-2)  #: -1 when there is no leader now, -2 unchanged
    replicas: list[Int32] | None = field(tag=2, default=None)
    removing_replicas: list[Int32] | None = field(tag=3, default=None)
    adding_replicas: list[Int32] | None = field(tag=4, default=None)
    leader_recovery_state: Int8 = field(tag=5, default=-1)
    directories: list[Uuid] | None = field(since=1, tag=8, default=None)
    eligible_leader_replicas: list[Int32] | None = field(since=2, tag=6, default=None)
    last_known_elr: list[Int32] | None = field(since=2, tag=7, default=None)


@struct
class ClearElrRecord:
    """Forget the eligible leader replicas of a topic."""

    topic_name: String  #: empty for every topic
