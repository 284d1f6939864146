"""The share coordinator: keeps the states of share partitions, for share fetches and for the group coordinator.

Each state is in the partition of `__share_group_state` that the hash of its key selects.
`stored_topic.py` loads a partition. At the end of a load, states of topics that no longer exist are
deleted, and later with their topic.

Every call runs synchronously and appends its record to the log before it returns. `take_unsynced`
returns the logs that must be synced before the client gets its answer. Logs that no caller takes
are synced at the end of the turn. A call for several partitions returns an error for each.

    share.coordinator.state.topic.prune.interval.ms         delete the start of a log whose states later snapshots repeat
    share.coordinator.cold.partition.snapshot.interval.ms   repeat snapshots of states that were not written for long, for pruning

`on_changed` is called with each share partition whose state was created again or deleted, so that
callers drop their copies.

Source: CoordinatorRuntime, ShareCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from minibroker.clock import Clock, Timer
from minibroker.cluster.cluster import Cluster
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import SHARE_GROUP_STATE_TOPIC
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.share_state.records import InitialState, ShareState, StateKey, StateSummary, StateUpdate
from minibroker.coordinator.share_state.states import ShareStates
from minibroker.coordinator.stored_topic import StoredPartition, StoredTopic, partition_of
from minibroker.errors import KafkaError
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.record_frame import SHARE_GROUP_STATE, CoordinatorRecord

_LOG = logging.getLogger(__name__)


class StoredStates(StoredPartition):
    """One partition of `__share_group_state`. StateStore writes it."""

    __slots__ = ("states",)

    def __init__(self, partition: Partition, states: ShareStates) -> None:
        super().__init__(partition, SHARE_GROUP_STATE)
        self.states = states

    def replay(self, record: CoordinatorRecord, record_offset: int, _producer_id: int) -> None:
        """Replay one record."""
        self.states.replay(record, record_offset)

    def first_needed_offset(self) -> int:
        """Return the first offset of the log that is needed; later records repeat the states below it."""
        needed = self.states.first_needed_offset()
        return self.partition.log.log_end_offset if needed is None else needed


class StateStore:
    """All partitions of the topic. A topic that was deleted and created again starts empty."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._stored = StoredTopic(SHARE_GROUP_STATE_TOPIC, cluster, clock, what="share partitions", make=self._make, finish=self._finish)

    def stop(self) -> None:
        """Stop loading."""
        self._stored.stop()

    def ensure_topic(self) -> None:
        """Create the topic if it does not exist, with the configs of Apache Kafka; KafkaError."""
        if SHARE_GROUP_STATE_TOPIC not in self._cluster.topics:
            self._cluster.create_topic(
                SHARE_GROUP_STATE_TOPIC,
                partition_count=self._config.share_coordinator_state_topic_num_partitions,
                configs={
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(self._config.share_coordinator_state_topic_min_isr),
                    "retention.ms": "-1",
                    "segment.bytes": str(self._config.share_coordinator_state_topic_segment_bytes),
                },
            )

    @property
    def partition_count(self) -> int:
        """The partition count of the topic, existing or not."""
        topic = self._cluster.topics.get(SHARE_GROUP_STATE_TOPIC)
        return self._config.share_coordinator_state_topic_num_partitions if topic is None else len(topic.partitions)

    def usable(self) -> list[StoredStates]:
        """Return the partitions that are loaded and online."""
        self._stored.follow()
        return [each for each in self._stored.loaded if each.is_usable]

    def at(self, index: int) -> StoredStates:
        """Return one loaded partition; CoordinatorLoadInProgress, NotCoordinator."""
        return self._stored.at(index)

    def exists(self, topic_id: UUID, partition: int) -> bool:
        """Whether a partition of a topic exists."""
        try:
            self._cluster.partition_by_id(topic_id, partition)
        except KafkaError:
            return False
        return True

    def _make(self, partition: Partition) -> StoredStates:
        return StoredStates(partition, ShareStates(self.exists, self._updates_per_snapshot))

    def _updates_per_snapshot(self) -> int:
        return self._config.share_coordinator_snapshot_update_records_per_snapshot

    def _finish(self, stored: StoredStates) -> Iterable[None]:
        self.delete_orphans(stored)
        return ()

    def delete_orphans(self, stored: StoredStates) -> None:
        """Delete states of topics that no longer exist."""
        try:
            stored.append_all(list(stored.states.orphans()), self._clock.now_ms())
        except KafkaError as error:
            _LOG.warning("%s-%d: could not delete states of deleted topics: %s", SHARE_GROUP_STATE_TOPIC, stored.partition.index, error)


T = TypeVar("T")
SyncLogs = Callable[[Sequence[PartitionLog], Callable[[Container[PartitionLog]], None]], None]

_LOG = logging.getLogger(__name__)


class Persister:
    """The coordinator of all share partitions: one node coordinates every one."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._sync = sync
        self._store = StateStore(cluster, config, clock)
        self._timers: dict[str, Timer] = {}  #: by purpose
        self._unsynced: dict[PartitionLog, None] = {}  #: used as an ordered set
        self.on_changed: list[Callable[[StateKey], None]] = []

    # Life

    def start(self) -> None:
        """Watch for deleted topics, prune logs and write cold snapshots from now on."""
        self._cluster.on_topic_deleted.append(self._delete_orphans)
        self._schedule("prune", self._config.share_coordinator_state_topic_prune_interval_ms, self._prune)
        self._schedule("snapshot", self._config.share_coordinator_cold_partition_snapshot_interval_ms, self._snapshot)

    def stop(self) -> None:
        """Stop writing."""
        self._cluster.on_topic_deleted.remove(self._delete_orphans)
        for timer in self._timers.values():
            timer.cancel()
        self._store.stop()

    def ensure_topic(self) -> None:
        """Create `__share_group_state` if it does not exist; KafkaError.

        Until then every call here raises NotCoordinator.
        """
        self._store.ensure_topic()

    def topic_partition(self, coordinator_key: str) -> tuple[str, int]:
        """Return the partition that has a state, existing or not; see StateKey.coordinator_key."""
        return SHARE_GROUP_STATE_TOPIC, partition_of(coordinator_key, self._store.partition_count)

    # States. All methods raise CoordinatorLoadInProgress and NotCoordinator; for several
    # partitions, before any is changed.

    def initialize(self, group_id: str, states: Sequence[InitialState]) -> list[KafkaError | None]:
        """Create states, or replace them with another start offset; FencedStateEpoch, UnknownTopicOrPartition, InvalidRequest."""
        self.ensure_topic()
        self._check_all(group_id, [(each.topic_id, each.partition) for each in states])

        now_ms = self._clock.now_ms()
        by_key = {StateKey(group_id, each.topic_id, each.partition): each for each in states}
        failed = self._change(by_key, lambda stored, key: stored.states.initialize(group_id, by_key[key], now_ms))
        return [failed.get(StateKey(group_id, each.topic_id, each.partition)) for each in states]

    def read_summary(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[StateSummary | KafkaError]:
        """Return summaries, with the defaults for an unknown state; UnknownTopicOrPartition, InvalidRequest."""
        self._check_all(group_id, partitions)

        def summary(partition: tuple[UUID, int]) -> StateSummary:
            key = StateKey(group_id, *partition)
            return self._stored(key).states.summary(key)

        return [_value(summary, each) for each in partitions]

    def delete(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> list[KafkaError | None]:
        """Delete states, known or not; UnknownTopicOrPartition, InvalidRequest."""
        self.ensure_topic()
        self._check_all(group_id, partitions)

        keys = [StateKey(group_id, *each) for each in partitions]
        failed = self._change(dict.fromkeys(keys), lambda stored, key: stored.states.delete(key))
        return [failed.get(key) for key in keys]

    def read(self, key: StateKey, leader_epoch: int) -> ShareState:
        """Return a state for the leader of the partition. Raises the errors of ShareStates.read."""
        stored = self._stored(key)
        state, record = stored.states.read(key, leader_epoch, self._clock.now_ms())
        if record is not None:
            self._append(stored, record)
        return state

    def write(self, key: StateKey, update: StateUpdate) -> None:
        """Update a state. Raises the errors of ShareStates.write."""
        stored = self._stored(key)
        self._append(stored, stored.states.write(key, update, self._clock.now_ms()))

    # Syncing

    def take_unsynced(self) -> list[PartitionLog]:
        """Return the logs that must be synced before the client gets its answer.

        The caller must sync them.
        """
        taken, self._unsynced = list(self._unsynced), {}
        return taken

    def _change(
        self, keys: Iterable[StateKey], decide: Callable[[StoredStates, StateKey], CoordinatorRecord | None]
    ) -> dict[StateKey, KafkaError]:
        """Append the record that `decide` returns for each key, those of one log together.

        Return the errors of unchanged keys.
        """
        failed: dict[StateKey, KafkaError] = {}
        decided: dict[StoredStates, dict[StateKey, CoordinatorRecord]] = {}
        for key in keys:
            try:
                stored = self._stored(key)
                record = decide(stored, key)
            except KafkaError as error:
                failed[key] = error
                continue
            if record is not None:
                decided.setdefault(stored, {})[key] = record
        for stored, records in decided.items():
            try:
                self._append(stored, *records.values())
            except KafkaError as error:
                failed |= dict.fromkeys(records, error)
                continue
            for key in records:
                self._changed(key)
        return failed

    def _append(self, stored: StoredStates, *records: CoordinatorRecord) -> None:
        unsynced = stored.append_all(records, self._clock.now_ms())
        if unsynced is not None:
            if not self._unsynced:
                self._clock.call_later_ms(0, self._sync_rest)
            self._unsynced[unsynced] = None

    def _sync_rest(self) -> None:
        logs = self.take_unsynced()
        if logs:
            self._sync(logs, lambda _: None)

    # Timers

    def _schedule(self, name: str, interval_ms: int, work: Callable[[], None]) -> None:
        def run() -> None:
            self._schedule(name, interval_ms, work)
            work()

        self._timers[name] = self._clock.call_later_ms(interval_ms, run)

    def _prune(self) -> None:
        """Delete the start of logs, after a sync of the repeated states, because a power loss may follow."""
        found = {stored: stored.first_needed_offset() for stored in self._store.usable()}
        logs = {
            stored.partition.log: (stored, offset) for stored, offset in found.items() if offset > stored.partition.log.log_start_offset
        }

        def cut(failures: Container[PartitionLog]) -> None:
            for log, (stored, offset) in logs.items():
                if log not in failures and stored.is_usable:
                    self._cut(stored, offset)

        if logs:
            self._sync([*logs], cut)

    def _cut(self, stored: StoredStates, offset: int) -> None:
        try:
            stored.partition.advance_log_start_offset(offset)
        except KafkaError as error:
            _LOG.warning("could not prune %s-%d: %s (will retry)", SHARE_GROUP_STATE_TOPIC, stored.partition.index, error)

    def _snapshot(self) -> None:
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        for stored in self._store.usable():
            now_ms = self._clock.now_ms()
            try:
                stored.append_all(stored.states.cold_snapshots(now_ms, interval_ms), now_ms)
            except KafkaError as error:
                _LOG.warning(
                    "could not write share state snapshots to %s-%d: %s (will retry)",
                    SHARE_GROUP_STATE_TOPIC,
                    stored.partition.index,
                    error,
                )

    def _delete_orphans(self, _topic: str) -> None:
        for stored in self._store.usable():
            self._store.delete_orphans(stored)

    def _check_all(self, group_id: str, partitions: Sequence[tuple[UUID, int]]) -> None:
        """Check that all states can be changed: CoordinatorLoadInProgress, NotCoordinator."""
        for each in partitions:
            self._stored(StateKey(group_id, *each))

    def _stored(self, key: StateKey) -> StoredStates:
        return self._store.at(partition_of(key.coordinator_key, self._store.partition_count))

    def _changed(self, key: StateKey) -> None:
        for listener in self.on_changed:
            listener(key)


def _value(work: Callable[[T], StateSummary], request: T) -> StateSummary | KafkaError:
    try:
        return work(request)
    except KafkaError as error:
        return error
