"""The machines of groups: who makes them, where they are found, and what becomes of them when their log comes and goes.

    group                                     its machine is made when
    classic, with members                     its log was read
    classic, without                          somebody asks about it
    of a newer kind                           its log was read
    of any kind, not there yet                its first member comes (`begin`)

What a machine wants stored is appended to the log at once; an answer waits for the sync of that log where the log asks for one
(`when_safe`). A log that goes offline takes its groups with it: who waits is told to look for another coordinator.

Source: GroupMetadataManager, GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.members import Members
from minibroker.coordinator.group.classic.rebalance import Limits
from minibroker.coordinator.group.classic.records import never_stored
from minibroker.coordinator.group.classic.requests import MemberMemory
from minibroker.coordinator.group.kind import GroupType, LiveGroup, Persist, load_kind
from minibroker.coordinator.group.membership_log import telling
from minibroker.coordinator.group.offset_records import group_record
from minibroker.coordinator.group.shard import Group
from minibroker.coordinator.group.store import GroupStore, StoredShard
from minibroker.coordinator.group.topics import ClusterTopics
from minibroker.coordinator.placement import partition_of
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import GroupIdNotFound, KafkaError, KafkaStorageError, NotCoordinator, RebalanceInProgress
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas.internal.offset_records import GroupMetadataValue

if TYPE_CHECKING:
    from minibroker.coordinator.share_state.persister import Persister

GROUPS_A_TURN: Final = 200  #: that are given their machines when a log is read: 10 ms

T = TypeVar("T")
G = TypeVar("G")

SyncLogs = Callable[[Iterable[PartitionLog], Callable[[dict[PartitionLog, KafkaStorageError]], None]], None]


class LiveGroups:
    """Of all groups. `sync(logs, done)` calls `done` with what could not be synced; `share_persister` makes the share coordinator."""

    def __init__(
        self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs, share_persister: Callable[[], Persister]
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.clock = clock
        self.topics = ClusterTopics(cluster, clock)
        self.member_memory = MemberMemory()
        self.share_persister = share_persister
        self.on_share_member_gone: list[Callable[[str, str], None]] = []  #: told group and member ids of who left, or was too late
        self._sync_logs = sync
        self._store = GroupStore(cluster, config, clock, on_loaded=self._resume)

    def shard_of(self, group_id: str) -> StoredShard:
        """Where a group lives, or will; CoordinatorLoadInProgress, NotCoordinator."""
        return self._store.shard(partition_of(group_id, self._store.partition_count))

    def find(self, stored: StoredShard, group_id: str) -> LiveGroup | None:
        """The machine of a group; None where there is no such group."""
        group = stored.live.get(group_id)
        known = stored.shard.groups.get(group_id)
        if group is None and known is not None:
            group = stored.live[group_id] = self._make(stored, group_id, known)
        return group

    def find_of_type(self, group_id: str, group_class: type[G], name: str) -> tuple[StoredShard, G]:
        """The machine of a group of that kind, whose name is for people; GroupIdNotFound."""
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
        """The machine of a group that there is not, or not of this kind. Nobody knows it until its first records are stored.

        They are stored behind `first_records`, the end of what had that id before: its place is taken then. `image` says what the machine
        of a newer kind shall begin with.
        """
        kind = None if group_type is GroupType.CLASSIC else load_kind(group_type)
        if kind is not None and image is None:
            image = kind.new_image()

        def persist(records: Sequence[CoordinatorRecord]) -> None:
            if stored.live.get(group_id) is group:
                self._persist(stored, records)
                return
            stored.shard.new_images[group_id] = image
            try:
                self._persist(stored, [*first_records, *records])
            finally:
                stored.shard.new_images.pop(group_id, None)
            old = stored.live.get(group_id)
            if isinstance(old, ClassicGroup):
                old.send_away(RebalanceInProgress)  # its members join what takes its place
            self.forget(stored, group_id)
            stored.live[group_id] = group

        group = (
            self._make_classic(group_id, None, persist)
            if kind is None
            else kind.make(self, group_id, image, telling(group_id, image, persist))
        )
        return group

    def take_over(self, group_id: str, members: Members, *, must_rebalance: bool) -> None:
        """The log says that a group of another kind is classic now; `members` know more of themselves than the log keeps."""
        stored = self.shard_of(group_id)
        self.forget(stored, group_id)
        value = stored.shard.groups[group_id].stored
        stored.live[group_id] = group = self._make_classic(group_id, value, partial(self._persist, stored), members)
        group.resume(must_rebalance=must_rebalance)

    def forget(self, stored: StoredShard, group_id: str) -> None:
        """The group is not there any more, or of another kind."""
        group = stored.live.pop(group_id, None)
        if group is not None:
            group.unload()

    def when_safe(
        self,
        stored: StoredShard,
        told: Callable[[T], None],
        failed: Callable[[type[KafkaError]], T],
        others: Sequence[PartitionLog] = (),
    ) -> Callable[[T], None]:
        """Tell an answer when all that is in the group's log is as safe as the log asks for, and `others` are synced."""

        def tell(answer: T) -> None:
            log = stored.partition.online_log
            logs = [*others, log] if log is not None and log.wants_sync else others
            if not logs:
                told(answer)
            else:
                self._sync_logs(logs, lambda failures: told(answer if failures.keys().isdisjoint(logs) else failed(NotCoordinator)))

        return tell

    # Machines

    def _make(self, stored: StoredShard, group_id: str, known: Group) -> LiveGroup:
        persist = partial(self._persist, stored)
        if known.is_classic:
            return self._make_classic(group_id, known.stored or never_stored(), persist)
        return load_kind(known.group_type).make(self, group_id, known.image, telling(group_id, known.image, persist))

    def _make_classic(
        self, group_id: str, stored: GroupMetadataValue | None, persist: Persist, members: Members | None = None
    ) -> ClassicGroup:
        return ClassicGroup(
            group_id,
            clock=self.clock,
            persist=lambda value: persist([group_record(group_id, value)]),
            limits=Limits(self.config.group_max_size, self.config.group_initial_rebalance_delay_ms),
            stored=stored,
            members=members,
        )

    def _persist(self, stored: StoredShard, records: Sequence[CoordinatorRecord]) -> None:
        stored.append(records, self.clock.now_ms())

    # Logs that come and go

    def _resume(self, stored: StoredShard) -> Iterator[None]:
        """A log was read: its members are given their session time-out to be heard of. A step is some groups."""
        stored.partition.subscribe(partial(self._unload_if_offline, stored))
        for number, (group_id, known) in enumerate(list(stored.shard.groups.items()), 1):
            if number % GROUPS_A_TURN == 0:
                yield
            is_needed = not known.is_classic or (known.stored is not None and known.stored.members)
            group = self.find(stored, group_id) if is_needed and stored.partition.is_online else None
            if isinstance(group, ClassicGroup):
                group.resume(must_rebalance=known.is_heir)
            elif group is not None:
                group.resume()

    def _unload_if_offline(self, stored: StoredShard) -> None:
        if not stored.partition.is_online:
            for group_id in list(stored.live):
                self.forget(stored, group_id)
