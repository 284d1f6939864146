"""States of share partitions, and their records in `__share_group_state`.

A share partition is a partition of a topic as one share group reads it.
`schemas/internal/share_state_records.py` has the format. A deleted state is a tombstone of its
snapshot. Source: ShareCoordinatorRecordHelpers of Apache Kafka 4.3.1.

New batches of delivery states are combined with the present ones:

    present   |--available, 1--|                |---acknowledged, 1---|
    new                 |--acknowledged, 1--|
    combined  |--avail--|---acknowledged, 1-|   |---acknowledged, 1---|

If two batches overlap, the one with more deliveries wins; if these are equal, the one with the
higher state. Equal neighbors are merged where Apache Kafka merges them, so that records are equal
byte for byte. Offsets below the start offset are dropped.

Source: PersisterStateBatchCombiner of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Self
from uuid import UUID

from minibroker.schemas.internal import share_state_records as schema
from minibroker.schemas.internal.share_state_records import ShareSnapshotKey, ShareUpdateKey
from minibroker.storage.record_frame import CoordinatorRecord

NO_OFFSET = -1  #: not set; of a start offset: unchanged


class RecordState(IntEnum):
    """The delivery state of a record. The numbers are those of requests and of records in the log."""

    AVAILABLE = 0
    ACQUIRED = 1  #: kept in memory only
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether no member will get the record again."""
        return self >= RecordState.ACKNOWLEDGED


class StateBatch(NamedTuple):
    """Neighboring records with the same state."""

    first_offset: int
    last_offset: int  #: inclusive
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Decides which of two overlapping batches wins."""
        return self.delivery_count, self.delivery_state


def combine(present: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Combine batches without overlaps, from `start_offset` on; NO_OFFSET keeps all offsets."""
    batches = _from(start_offset, (*present, *new))
    if len(batches) < 2:
        return batches
    rest = sorted(set(batches), key=_order)
    done: list[StateBatch] = []
    while len(rest) > 1:
        before, after = rest[0], rest[1]
        if not _can_be_merged(before, after):
            done.append(rest.pop(0))
            continue
        del rest[:2]
        for each in _merged(before, after):
            index = bisect_left(rest, _order(each), key=_order)
            if rest[index : index + 1] != [each]:
                rest.insert(index, each)
    return done + rest


def _order(batch: StateBatch) -> tuple[int, int, tuple[int, int]]:
    return batch.first_offset, batch.last_offset, batch.rank


def _from(start_offset: int, batches: Sequence[StateBatch]) -> list[StateBatch]:
    if start_offset == NO_OFFSET:
        return list(batches)
    return [
        each if each.first_offset >= start_offset else each._replace(first_offset=start_offset)
        for each in batches
        if each.last_offset >= start_offset
    ]


def _can_be_merged(before: StateBatch, after: StateBatch) -> bool:
    return after.first_offset <= before.last_offset or (after.first_offset == before.last_offset + 1 and after.rank == before.rank)


def _merged(before: StateBatch, after: StateBatch) -> Iterable[StateBatch]:
    """Merge two overlapping or equal batches into up to three separate ones.

    `before` comes first in order.
    """
    if after.rank == before.rank:
        return (before._replace(last_offset=max(before.last_offset, after.last_offset)),)
    if after.rank > before.rank:
        found = [after]
        if before.first_offset < after.first_offset:
            found.insert(0, before._replace(last_offset=after.first_offset - 1))
        if before.last_offset > after.last_offset:
            found.append(before._replace(first_offset=after.last_offset + 1))
        return found
    if after.last_offset > before.last_offset:
        return before, after._replace(first_offset=before.last_offset + 1)
    return (before,)


NO_EPOCH: Final = -1  #: skips the check
NO_COUNT: Final = -1  #: unknown
_MAX_ID_LENGTH: Final = 24  #: of a topic id as text


class StateKey(NamedTuple):
    """Identifies a share partition."""

    group_id: str
    topic_id: UUID
    partition: int

    @classmethod
    def of(cls, key: ShareSnapshotKey | ShareUpdateKey) -> Self:
        """Return the key of a record."""
        return cls(key.group_id, key.topic_id, key.partition)

    @classmethod
    def parse(cls, coordinator_key: str) -> Self:
        """Parse a coordinator key; ValueError. A group id may have colons."""
        group_id, topic_id, partition = coordinator_key.rsplit(":", 2)
        if not group_id.strip() or len(topic_id) > _MAX_ID_LENGTH:
            raise ValueError(f"not the key of a share partition: {coordinator_key}")
        return cls(group_id, UUID(bytes=urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4))), int(partition))

    @property
    def coordinator_key(self) -> str:
        """The key of FindCoordinator, which selects the partition of the state."""
        return f"{self.group_id}:{urlsafe_b64encode(self.topic_id.bytes).rstrip(b'=').decode()}:{self.partition}"


class ShareState(NamedTuple):
    """The whole state of a share partition."""

    snapshot_epoch: int  #: grows with each snapshot
    state_epoch: int  #: of the group when it initialized the state
    leader_epoch: int  #: of the partition when it was last read
    start_offset: int  #: NO_OFFSET: share.auto.offset.reset decides
    delivery_complete_count: int  #: offsets from start_offset on that are acknowledged or archived
    batches: Sequence[StateBatch]  #: in order, without overlaps
    create_timestamp_ms: int
    write_timestamp_ms: int  #: differs from create_timestamp_ms if the snapshot repeats an older one


class InitialState(NamedTuple):
    """The initial state of a share partition, or the one with an altered offset."""

    topic_id: UUID
    partition: int
    state_epoch: int
    start_offset: int  #: NO_OFFSET: share.auto.offset.reset decides at the first fetch


class StateUpdate(NamedTuple):
    """A change of the state of a share partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int  #: NO_OFFSET: unchanged
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """How far a group has read a partition. The defaults are for unknown states."""

    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = NO_OFFSET
    delivery_complete_count: int = NO_COUNT


_VERSION = 0
_TOMBSTONE = -1


def snapshot_record(key: StateKey, state: ShareState) -> CoordinatorRecord:
    """Return the record of a whole state."""
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
    """Return the record of a change since the snapshot of that epoch.

    `batches` are those of `update`, without overlaps.
    """
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
    """Return the tombstone of a state."""
    return CoordinatorRecord(_snapshot_key(key), None, _TOMBSTONE)


def snapshot_of(value: schema.ShareSnapshotValue) -> ShareState:
    """Decode a snapshot."""
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
    """Decode the ranges of offsets in a record."""
    return [StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in value.state_batches]


def _snapshot_key(key: StateKey) -> schema.ShareSnapshotKey:
    return schema.ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)


def _batches(batches: Iterable[StateBatch]) -> list[schema.StateBatch]:
    return [schema.StateBatch(**each._asdict()) for each in batches]
