"""The state machines of all groups: created when they are needed, found by group id, unloaded with their log.

    group                                     its state machine is created when
    classic, with members                     its log was read
    classic, without members                  a request needs it
    of a newer kind                           its log was read
    of any kind, new                          its first member joins (`begin`)

A state machine appends its records immediately. If the log must be synced, the answer waits for the
sync (`when_safe`). When a log goes offline, its groups are unloaded and waiting members receive
NOT_COORDINATOR.

Source: GroupMetadataManager, GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.kind import GroupKind, GroupType, LiveGroup, Persist, StoredGroup
from minibroker.coordinator.group.membership_log import with_log_lines
from minibroker.coordinator.group.store import GroupStore, StoredShard
from minibroker.coordinator.group.topics import ClusterTopics
from minibroker.coordinator.stored_topic import partition_of
from minibroker.errors import GroupIdNotFound, KafkaError, KafkaStorageError, NotCoordinator, RebalanceInProgress
from minibroker.log.partition_log import PartitionLog
from minibroker.storage.record_frame import CoordinatorRecord

GROUPS_A_TURN: Final = 200  #: state machines created in one turn of the loop when a log is read: 10 ms

T = TypeVar("T")
G = TypeVar("G")

SyncLogs = Callable[[Iterable[PartitionLog], Callable[[dict[PartitionLog, KafkaStorageError]], None]], None]


class LiveGroups:
    """The state machines, by group id."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs, kind_of: Callable[[GroupType], GroupKind]
    ) -> None:
        """Create the table of groups.

        `sync` syncs logs, then calls its second argument with the failures. `kind_of` returns the
        service of a kind.
        """
        self.cluster = cluster
        self.config = config
        self.clock = clock
        self.topics = ClusterTopics(cluster, clock)
        self.store = GroupStore(
            cluster, config, clock, on_loaded=self._resume, new_image=lambda group_type: kind_of(group_type).new_image()
        )
        #: called with the id of a group after its state, epoch or members changed, or it was deleted: the console follows groups
        self.on_change: Callable[[str], None] | None = None
        self._sync_logs = sync
        self._kind_of = kind_of

    def shard_of(self, group_id: str) -> StoredShard:
        """Return the partition of a group, existing or not; CoordinatorLoadInProgress, NotCoordinator."""
        return self.store.shard(partition_of(group_id, self.store.partition_count))

    def find(self, stored: StoredShard, group_id: str) -> LiveGroup | None:
        """Return the state machine of a group; None if there is no such group."""
        group = stored.live.get(group_id)
        known = stored.shard.groups.get(group_id)
        if group is None and known is not None:
            group = stored.live[group_id] = self._make(group_id, known, partial(self.persist, stored))
        return group

    def find_of_type(self, group_id: str, group_class: type[G], name: str) -> tuple[StoredShard, G]:
        """Return the state machine of a group of the kind `name`; GroupIdNotFound."""
        stored = self.shard_of(group_id)
        group = self.find(stored, group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, group_class):
            raise GroupIdNotFound(f"Group {group_id} is not a {name} group.")
        return stored, group

    def begin(
        self,
        stored: StoredShard,
        group_id: str,
        group_type: GroupType,
        *,
        image: Any = None,
        first_records: Sequence[CoordinatorRecord] = (),
    ) -> LiveGroup:
        """Create the state machine of a new group, or of one that changes its kind.

        `find` returns it once its first records are stored.

        `first_records` end the group that had this id before. They are stored in one batch with the
        first records of the new group, which then takes its place. `image` is the initial image of
        a group of a newer kind; it is empty by default.
        """
        if image is None:
            image = self._kind_of(group_type).new_image()

        def persist(records: Sequence[CoordinatorRecord]) -> None:
            if stored.live.get(group_id) is group:
                self.persist(stored, records)
                return
            stored.shard.new_images[group_id] = image
            try:
                self.persist(stored, [*first_records, *records])
            finally:
                stored.shard.new_images.pop(group_id, None)
            self.forget(stored, group_id, RebalanceInProgress)  # its waiting members join the new group
            stored.live[group_id] = group

        group = self._make(group_id, StoredGroup(group_type=group_type, image=image), persist)
        return group

    def forget(self, stored: StoredShard, group_id: str, error: type[KafkaError] = NotCoordinator) -> None:
        """Drop the state machine of a group that was deleted or changed its kind.

        Waiting members receive `error`.
        """
        group = stored.live.pop(group_id, None)
        if group is not None:
            group.unload(error)
        if group_id not in stored.shard.groups:
            self.changed(group_id)

    def changed(self, group_id: str) -> None:
        """Notify `on_change`."""
        if self.on_change is not None:
            self.on_change(group_id)

    def peek(self, group_id: str) -> LiveGroup | None:
        """Return the state machine of a group if there is one; CoordinatorLoadInProgress, NotCoordinator."""
        return self.shard_of(group_id).live.get(group_id)

    def persist(self, stored: StoredShard, records: Sequence[CoordinatorRecord]) -> None:
        """Append records of a group in one batch, and replay them."""
        stored.append(records, self.clock.now_ms())

    def when_safe(
        self,
        stored: StoredShard,
        answer_to: Callable[[T], None],
        failed: Callable[[type[KafkaError]], T],
        more_logs: Sequence[PartitionLog] = (),
    ) -> Callable[[T], None]:
        """Return a callback that passes an answer to `answer_to` once the group's log and `more_logs` are synced.

        The group's log is synced only if flush.messages requires it. If a sync fails, the answer is
        `failed(NotCoordinator)`.
        """

        def send(answer: T) -> None:
            log = stored.partition.online_log
            logs = [*more_logs, log] if log is not None and log.wants_sync else more_logs
            if not logs:
                answer_to(answer)
            else:
                self._sync_logs(logs, lambda failures: answer_to(answer if failures.keys().isdisjoint(logs) else failed(NotCoordinator)))

        return send

    def _make(self, group_id: str, known: StoredGroup, persist: Persist) -> LiveGroup:
        if not known.is_classic:  # a classic group logs its members itself, with their generation
            persist = self._noted(group_id, with_log_lines(group_id, known.image, persist))
        return self._kind_of(known.group_type).make(group_id, known, persist)

    def _noted(self, group_id: str, persist: Persist) -> Persist:
        """Return `persist`, followed by a call of `on_change`. Classic groups call it themselves: most of their changes are not stored."""

        def persist_and_note(records: Sequence[CoordinatorRecord]) -> None:
            persist(records)
            self.changed(group_id)

        return persist_and_note

    def _resume(self, stored: StoredShard) -> Iterator[None]:
        """Resume the groups of a log that was just read, some in each step."""
        stored.partition.subscribe(partial(self._unload_if_offline, stored))
        for number, (group_id, known) in enumerate(list(stored.shard.groups.items()), 1):
            if number % GROUPS_A_TURN == 0:
                yield
            is_needed = not known.is_classic or (known.stored is not None and known.stored.members)
            group = self.find(stored, group_id) if is_needed and stored.partition.is_online else None
            if group is not None:
                group.resume()

    def _unload_if_offline(self, stored: StoredShard) -> None:
        if not stored.partition.is_online:
            for group_id in list(stored.live):
                self.forget(stored, group_id)
