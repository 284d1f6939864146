"""Share partitions as records of `__share_group_state`, and back; what they look like is schemas/internal/share_state_records.py.

The end of one is a tombstone of its snapshot. Source: ShareCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.coordinator.share.state_batches import StateBatch
from minibroker.coordinator.share.values import ShareState, StateKey, StateUpdate
from minibroker.schemas.internal import share_state_records as schema

_VERSION = 0
_TOMBSTONE = -1


def snapshot_record(key: StateKey, state: ShareState) -> CoordinatorRecord:
    """All that is known."""
    value = schema.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=_batches(state.batches),
    )
    return CoordinatorRecord(_snapshot_key(key), value, _VERSION)


def update_record(
    key: StateKey, snapshot_epoch: int, leader_epoch: int, update: StateUpdate, batches: Iterable[StateBatch]
) -> CoordinatorRecord:
    """What is new since the snapshot of that epoch; `batches` are those of `update`, without overlaps."""
    value = schema.ShareUpdateValue(
        snapshot_epoch=snapshot_epoch,
        leader_epoch=leader_epoch,
        start_offset=update.start_offset,
        delivery_complete_count=update.delivery_complete_count,
        state_batches=_batches(batches),
    )
    update_key = schema.ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return CoordinatorRecord(update_key, value, _VERSION)


def state_tombstone(key: StateKey) -> CoordinatorRecord:
    """The share partition is gone."""
    return CoordinatorRecord(_snapshot_key(key), None, _TOMBSTONE)


def snapshot_of(value: schema.ShareSnapshotValue) -> ShareState:
    """What a snapshot says."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple(batches_of(value)),
        create_timestamp_ms=value.create_timestamp,
        write_timestamp_ms=value.write_timestamp,
    )


def batches_of(value: schema.ShareSnapshotValue | schema.ShareUpdateValue) -> list[StateBatch]:
    """The ranges of offsets in a record."""
    return [StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in value.state_batches]


def _snapshot_key(key: StateKey) -> schema.ShareSnapshotKey:
    return schema.ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _batches(batches: Iterable[StateBatch]) -> list[schema.StateBatch]:
    return [schema.StateBatch(**each._asdict()) for each in batches]
