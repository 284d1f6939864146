"""The states of one partition of `__share_group_state`, replayed from records of snapshots and updates.

Each request that changes a state is one record: the whole state (snapshot) or the change (update):

    request      record                                            INVALID_REQUEST    FENCED_...
    initialize   snapshot of the next epoch (the first is 0)                          STATE_EPOCH, if it is lower
    write        update; after `updates_per_snapshot` a snapshot   not initialized    LEADER_EPOCH, STATE_EPOCH, if they are lower
    read         update if the leader epoch is higher, else none   not initialized    LEADER_EPOCH, if it is lower
    summary      none; an empty summary of an unknown state
    delete       tombstone of the snapshot; none of an unknown state

All of them: UNKNOWN_TOPIC_OR_PARTITION if there is no such partition, INVALID_REQUEST for a
negative one. An epoch of -1 skips the check.

Invariant: requests have no side effects. A returned record takes effect when it is appended and
replayed.

Source: ShareCoordinatorShard, ShareGroupOffset, ShareCoordinatorOffsetsManager of Apache Kafka
4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

from minibroker.coordinator.share_state.records import (
    NO_COUNT,
    NO_EPOCH,
    NO_OFFSET,
    InitialState,
    ShareState,
    StateKey,
    StateSummary,
    StateUpdate,
    batches_of,
    combine,
    snapshot_of,
    snapshot_record,
    state_tombstone,
    update_record,
)
from minibroker.errors import (
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from minibroker.schemas.internal.share_state_records import ShareSnapshotKey, ShareUpdateKey, ShareUpdateValue
from minibroker.storage.record_frame import CoordinatorRecord


class _StoredState:
    """The state of one share partition. Written by ShareStates.replay."""

    __slots__ = ("leader_epoch", "snapshot_offset", "state", "state_epoch", "update_count")

    def __init__(self, state: ShareState) -> None:
        self.state = state
        self.leader_epoch = state.leader_epoch  #: the highest so far
        self.state_epoch = state.state_epoch  #: the highest so far
        self.update_count = 0  #: since the last snapshot
        self.snapshot_offset = NO_OFFSET  #: of the record of the last snapshot


class ShareStates:
    """The states by share partition. `exists` returns whether a topic, by id, has a partition."""

    def __init__(self, exists: Callable[[UUID, int], bool], updates_per_snapshot: Callable[[], int]) -> None:
        self._exists = exists
        self._updates_per_snapshot = updates_per_snapshot
        self._stored: dict[StateKey, _StoredState] = {}

    # Requests

    def initialize(self, group_id: str, initial: InitialState, now_ms: int) -> CoordinatorRecord:
        """Return the snapshot of a new state; FencedStateEpoch and the errors of all requests."""
        key = StateKey(group_id, initial.topic_id, initial.partition)
        _check_index(key)
        stored = self._stored.get(key)
        if stored is not None and NO_EPOCH != initial.state_epoch < stored.state_epoch:
            raise FencedStateEpoch
        self._check_topic(key)
        state = ShareState(
            snapshot_epoch=0 if stored is None else stored.state.snapshot_epoch + 1,
            state_epoch=initial.state_epoch,
            leader_epoch=0,
            start_offset=initial.start_offset,
            delivery_complete_count=NO_COUNT if initial.start_offset == NO_OFFSET else 0,
            batches=(),
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return snapshot_record(key, state)

    def write(self, key: StateKey, update: StateUpdate, now_ms: int) -> CoordinatorRecord:
        """Return the record of a change; InvalidRequest, FencedLeaderEpoch, FencedStateEpoch and the errors of all requests."""
        _check_index(key)
        stored = self._stored.get(key)
        if stored is None:
            raise InvalidRequest("Write operation on uninitialized share partition not allowed.")
        if NO_EPOCH != update.leader_epoch < stored.leader_epoch:
            raise FencedLeaderEpoch
        if NO_EPOCH != update.state_epoch < stored.state_epoch:
            raise FencedStateEpoch
        self._check_topic(key)
        return self._record(key, stored, update, now_ms, leader_epoch=stored.state.leader_epoch)

    def read(self, key: StateKey, leader_epoch: int, now_ms: int) -> tuple[ShareState, CoordinatorRecord | None]:
        """Return the state, and the record of a new leader epoch; InvalidRequest, FencedLeaderEpoch and the errors of all requests."""
        _check_index(key)
        stored = self._stored.get(key)
        if stored is None:
            raise InvalidRequest("Read operation on uninitialized share partition not allowed.")
        if NO_EPOCH != leader_epoch < stored.leader_epoch:
            raise FencedLeaderEpoch
        self._check_topic(key)
        state = stored.state
        if leader_epoch in {NO_EPOCH, stored.leader_epoch}:
            return state, None
        update = StateUpdate(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return state, self._record(key, stored, update, now_ms, leader_epoch=leader_epoch)

    def summary(self, key: StateKey) -> StateSummary:
        """Return the summary of a state; the errors of all requests."""
        _check_index(key)
        self._check_topic(key)
        stored = self._stored.get(key)
        if stored is None:
            return StateSummary()
        state = stored.state
        return StateSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.delivery_complete_count)

    def delete(self, key: StateKey) -> CoordinatorRecord | None:
        """Return the tombstone; None for an unknown state. Raises the errors of all requests."""
        _check_index(key)
        self._check_topic(key)
        return state_tombstone(key) if key in self._stored else None

    # Maintenance

    def orphans(self) -> Iterator[CoordinatorRecord]:
        """Return tombstones of states whose partition does not exist any more."""
        return (state_tombstone(key) for key in self._stored if not self._exists(key.topic_id, key.partition))

    def cold_snapshots(self, now_ms: int, interval_ms: int) -> list[CoordinatorRecord]:
        """Repeat snapshots that are older than `interval_ms`, so that the log can be pruned; empty if all are repetitions already."""
        states = {key: stored.state for key, stored in self._stored.items()}
        if all(each.create_timestamp_ms != each.write_timestamp_ms for each in states.values()):
            return []
        return [
            snapshot_record(key, each._replace(snapshot_epoch=each.snapshot_epoch + 1, write_timestamp_ms=now_ms))
            for key, each in states.items()
            if now_ms - each.write_timestamp_ms >= interval_ms
        ]

    def first_needed_offset(self) -> int | None:
        """Return the first offset of the log that is needed; None if no record is needed.

        Later records repeat the states below it.
        """
        return min((each.snapshot_offset for each in self._stored.values()), default=None)

    # Replay

    def replay(self, record: CoordinatorRecord, record_offset: int) -> None:
        """Replay one record, in the order of the log."""
        if isinstance(record.key, ShareSnapshotKey):
            self._replay_snapshot(record, record_offset)
        elif isinstance(record.key, ShareUpdateKey):
            self._replay_update(StateKey.of(record.key), record.value)

    def _replay_snapshot(self, record: CoordinatorRecord, record_offset: int) -> None:
        key = StateKey.of(record.key)
        if record.value is None:
            self._stored.pop(key, None)
            return
        state = snapshot_of(record.value)
        stored = self._stored.get(key)
        if stored is None:
            stored = self._stored[key] = _StoredState(state)
        stored.state = state
        stored.leader_epoch = max(stored.leader_epoch, state.leader_epoch)
        stored.state_epoch = max(stored.state_epoch, state.state_epoch)
        stored.snapshot_offset = record_offset
        if stored.update_count >= self._updates_per_snapshot():
            stored.update_count = 0

    def _replay_update(self, key: StateKey, value: ShareUpdateValue | None) -> None:
        stored = self._stored.get(key)
        if stored is None or value is None:
            return  # its snapshot was deleted or pruned
        state = stored.state
        start_offset = state.start_offset if value.start_offset == NO_OFFSET else value.start_offset
        stored.state = state._replace(
            leader_epoch=state.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=value.delivery_complete_count,
            batches=tuple(combine(state.batches, batches_of(value), start_offset)),
        )
        stored.leader_epoch = max(stored.leader_epoch, value.leader_epoch)
        stored.update_count += 1

    def _record(self, key: StateKey, stored: _StoredState, update: StateUpdate, now_ms: int, *, leader_epoch: int) -> CoordinatorRecord:
        state = stored.state
        if stored.update_count < self._updates_per_snapshot():
            return update_record(key, state.snapshot_epoch, leader_epoch, update, combine((), update.batches, update.start_offset))
        start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
        snapshot = ShareState(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            batches=tuple(combine(state.batches, update.batches, start_offset)),
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return snapshot_record(key, snapshot)

    def _check_topic(self, key: StateKey) -> None:
        if not self._exists(key.topic_id, key.partition):
            raise UnknownTopicOrPartition


def _check_index(key: StateKey) -> None:
    if key.partition < 0:
        raise InvalidRequest("The partition id cannot be a negative number.")
