"""The messages that consumers of a classic group exchange through the broker, which only forwards them: the embedded protocol "consumer".

Each is preceded by its version, an int16, and none is flexible.

ConsumerProtocolSubscription
  v1  owned_partitions, for cooperative rebalancing (KIP-429)
  v2  generation_id
  v3  rack_id (KIP-881)

ConsumerProtocolAssignment is the same in all versions.
"""

from __future__ import annotations

from minibroker.wire.schema import Bytes, Int32, String, field, struct

MAX_VERSION = 3


@struct
class TopicPartitions:
    """Partitions of one topic; Kafka's name is TopicPartition."""

    topic: String
    partitions: list[Int32]


@struct
class ConsumerProtocolSubscription:
    """The subscription of a member."""

    topics: list[String]
    user_data: Bytes | None = field(default=None)
    owned_partitions: list[TopicPartitions] = field(since=1, default=())
    generation_id: Int32 = field(since=2, default=-1)
    rack_id: String | None = field(since=3, default=None)


@struct
class ConsumerProtocolAssignment:
    """The assignment of a member."""

    assigned_partitions: list[TopicPartitions]
    user_data: Bytes | None = field(default=None)
