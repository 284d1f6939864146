"""Records of `__share_group_state`: the states of a partition's records in a share group (KIP-932).

Keys and values have only v0; only values are flexible. A snapshot has the whole state, an update the changes since the snapshot
of the same epoch.
"""

from __future__ import annotations

from minibroker.wire.schema import Int8, Int16, Int32, Int64, String, Uuid, field, struct


@struct
class ShareSnapshotKey:
    """Record type 0."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@struct
class StateBatch:
    """A range of offsets in one state."""

    first_offset: Int64
    last_offset: Int64  #: inclusive
    delivery_state: Int8  #: 0 available, 2 acknowledged, 4 archived
    delivery_count: Int16


@struct
class ShareSnapshotValue:
    """All that is known of the partition."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = field(tag=0, default=-1)  #: offsets from start_offset on whose delivery is complete
    create_timestamp: Int64  #: ms since 1970
    write_timestamp: Int64  #: ms since 1970
    state_batches: list[StateBatch]


@struct
class ShareUpdateKey:
    """Record type 1."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@struct
class ShareUpdateValue:
    """What changed."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64  #: -1: as before
    delivery_complete_count: Int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch]
