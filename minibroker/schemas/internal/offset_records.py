"""Records of `__consumer_offsets`: committed offsets, and classic groups with their members.

OffsetCommitValue
  v1  expire_timestamp, written only for a commit with a retention time (OffsetCommit 2 to 4)
  v3  leader_epoch (KIP-320)
  v4  flexible; topic_id

GroupMetadataValue
  v1  rebalance_timeout (KIP-62)
  v2  current_state_timestamp (KIP-211)
  v3  group_instance_id (KIP-345)
  v4  flexible
"""

from __future__ import annotations

from minibroker.wire.schema import NIL_UUID, Bytes, Int32, Int64, String, Uuid, field, struct


@struct
class LegacyOffsetCommitKey:
    """Record type 0, which Kafka reads and no longer writes; the same fields as OffsetCommitKey."""

    group: String
    topic: String
    partition: Int32


@struct
class LegacyOffsetCommitValue:
    """As Kafka 0.8 stored it."""

    offset: Int64
    metadata: String
    commit_timestamp: Int64


@struct
class OffsetCommitKey:
    """Record type 1."""

    group: String
    topic: String
    partition: Int32


@struct
class OffsetCommitValue:
    """A committed offset; a tombstone deletes it."""

    offset: Int64  #: the next offset to read
    leader_epoch: Int32 = field(since=3, default=-1)
    metadata: String
    commit_timestamp: Int64  #: ms since 1970
    expire_timestamp: Int64 = field(since=1, until=1, default=-1)  #: ms since 1970, -1 leaves it to the broker
    topic_id: Uuid = field(since=4, tag=0, default=NIL_UUID)  #: offsets committed for another topic id with this name are ignored


@struct
class GroupMetadataKey:
    """Record type 2."""

    group: String


@struct
class MemberMetadata:
    """A member of a classic group."""

    member_id: String
    group_instance_id: String | None = field(since=3, default=None)
    client_id: String
    client_host: String
    rebalance_timeout: Int32 = field(since=1, default=-1)  #: ms, -1 means session_timeout
    session_timeout: Int32  #: ms
    subscription: Bytes  #: of the chosen protocol, as the member sent it
    assignment: Bytes  #: as the leader sent it


@struct
class GroupMetadataValue:
    """A generation of a classic group; a tombstone deletes the group."""

    protocol_type: String
    generation: Int32
    protocol: String | None
    leader: String | None
    current_state_timestamp: Int64 = field(since=2, default=-1)  #: ms since 1970
    members: list[MemberMetadata]
