"""Members of classic groups: what they ask for goes to their group's state machine (classic/), and comes back when it is safe.

A group has a state machine from the moment that its log is read and shows members, or that somebody asks about it. What the machine wants
stored is appended to the log at once; an answer waits for the sync of that log where the log asks for one. A log that goes offline
takes its groups with it: who waits is told to look for another coordinator.

Errors are answers, or raised where there is nothing to wait for; every call may end with NotCoordinator and CoordinatorLoadInProgress.

Source: GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from minibroker.clock import Clock
from minibroker.cluster.cluster import Cluster
from minibroker.config.broker_config import BrokerConfig
from minibroker.coordinator.group.classic.answers import UNKNOWN_MEMBER_ID, Join, JoinAnswer, Joined, Leave, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.rebalance import Limits
from minibroker.coordinator.group.classic.records import never_stored
from minibroker.coordinator.group.records import group_record
from minibroker.coordinator.group.store import GroupStore, StoredShard
from minibroker.coordinator.placement import partition_of
from minibroker.errors import (
    CoordinatorLoadInProgress,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    UnknownMemberId,
)
from minibroker.log.partition_log import PartitionLog
from minibroker.schemas.internal.offset_records import GroupMetadataValue

T = TypeVar("T")

SyncLogs = Callable[[Iterable[PartitionLog], Callable[[dict[PartitionLog, KafkaStorageError]], None]], None]
Left = Callable[[list[type[KafkaError] | None]], None]


class Memberships:
    """Of all classic groups. `sync(logs, done)` calls `done` with what could not be synced."""

    def __init__(self, cluster: Cluster, config: BrokerConfig, clock: Clock, sync: SyncLogs) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._sync_logs = sync
        self._store = GroupStore(cluster, config, clock, on_loaded=self._resume)

    # Requests

    def join(self, group_id: str, join: Join, joined: Joined) -> None:
        """Become a member, or take part in the next generation."""

        def refused(error: type[KafkaError]) -> JoinAnswer:
            return JoinAnswer(join.member_id, error=error)

        try:
            self._check_join(group_id, join)
            stored = self._shard_of(group_id)
            group = self._group_to_join(stored, group_id, join.member_id)
        except KafkaError as error:
            joined(refused(type(error)))
            return
        group.join(join, self._when_safe(stored, joined, refused))
        if group_id not in stored.shard.groups:
            self._forget(stored, group_id)  # its first member was refused

    def sync(self, group_id: str, sync: Sync, synced: Synced) -> None:
        """Ask for what the member shall read."""

        def refused(error: type[KafkaError]) -> SyncAnswer:
            return SyncAnswer(error=error)

        try:
            stored, group = self._group_of_member(group_id)
        except KafkaError as error:
            synced(refused(type(error)))
            return
        group.sync(sync, self._when_safe(stored, synced, refused))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """A member is alive; KafkaError kinds of classic/group.py. While its group is being read nobody knows better."""
        try:
            _, group = self._group_of_member(group_id)
        except CoordinatorLoadInProgress:
            return
        group.heartbeat(member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[Leave], left: Left) -> None:
        """Members go: for each the error or None. InvalidGroupId and the like are raised."""
        try:
            stored, group = self._group_of_member(group_id)
        except UnknownMemberId:
            left([UnknownMemberId] * len(leaving))
            return

        def failed(error: type[KafkaError]) -> list[type[KafkaError] | None]:
            return [error] * len(leaving)

        self._when_safe(stored, left, failed)(group.leave(leaving))

    # Groups

    def _check_join(self, group_id: str, join: Join) -> None:
        if not group_id:
            raise InvalidGroupId
        if not self._config.group_min_session_timeout_ms <= join.session_timeout_ms <= self._config.group_max_session_timeout_ms:
            raise InvalidSessionTimeout

    def _group_to_join(self, stored: StoredShard, group_id: str, member_id: str) -> ClassicGroup:
        group = self._classic(stored, group_id)
        if group is not None:
            return group
        if group_id in stored.shard.groups:
            raise InconsistentGroupProtocol  # one of KIP-848
        if member_id != UNKNOWN_MEMBER_ID:
            raise UnknownMemberId
        stored.classic[group_id] = group = self._make(stored, group_id, None)
        return group

    def _group_of_member(self, group_id: str) -> tuple[StoredShard, ClassicGroup]:
        if not group_id:
            raise InvalidGroupId
        stored = self._shard_of(group_id)
        group = self._classic(stored, group_id)
        if group is None:
            raise UnknownMemberId
        return stored, group

    def _classic(self, stored: StoredShard, group_id: str) -> ClassicGroup | None:
        """The state machine of a group that there is."""
        group = stored.classic.get(group_id)
        if group is None:
            known = stored.shard.groups.get(group_id)
            if known is None or not known.is_classic:
                return None
            stored.classic[group_id] = group = self._make(stored, group_id, known.stored or never_stored())
        return group

    def _make(self, stored: StoredShard, group_id: str, value: GroupMetadataValue | None) -> ClassicGroup:
        limits = Limits(self._config.group_max_size, self._config.group_initial_rebalance_delay_ms)
        return ClassicGroup(group_id, clock=self._clock, persist=partial(self._persist, stored, group_id), limits=limits, stored=value)

    def _persist(self, stored: StoredShard, group_id: str, value: GroupMetadataValue) -> None:
        stored.append([group_record(group_id, value)], self._clock.now_ms())

    def _forget(self, stored: StoredShard, group_id: str) -> None:
        """The group is not there any more."""
        group = stored.classic.pop(group_id, None)
        if group is not None:
            group.unload()

    def _shard_of(self, group_id: str) -> StoredShard:
        return self._store.shard(partition_of(group_id, self._store.partition_count))

    # Logs that come and go

    def _resume(self, stored: StoredShard) -> None:
        """A log was read: its members are given their session time-out to be heard of."""
        stored.partition.subscribe(partial(self._unload_if_offline, stored))
        for group_id, known in list(stored.shard.groups.items()):
            if known.stored is not None and known.stored.members:
                group = stored.classic[group_id] = self._make(stored, group_id, known.stored)
                group.resume()

    def _unload_if_offline(self, stored: StoredShard) -> None:
        if stored.partition.online_log is None:
            for group_id in list(stored.classic):
                self._forget(stored, group_id)

    def _when_safe(self, stored: StoredShard, told: Callable[[T], None], failed: Callable[[type[KafkaError]], T]) -> Callable[[T], None]:
        """Tell an answer when all that is in the group's log is as safe as the log asks for."""

        def tell(answer: T) -> None:
            log = stored.partition.online_log
            if log is None or not log.wants_sync:
                told(answer)
            else:
                self._sync_logs([log], lambda failures: told(failed(NotCoordinator) if log in failures else answer))

        return tell
