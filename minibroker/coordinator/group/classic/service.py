"""Members that speak the classic protocol: what they ask for goes to their group's state machine, and comes back when it is safe.

    they ask                   a classic group    a consumer group             an empty one             one of another kind
    JoinGroup                  classic/group      consumer/mixed_group         becomes classic (1)      INCONSISTENT_GROUP_PROTOCOL
    SyncGroup, Heartbeat,      classic/group      consumer/mixed_group         UNKNOWN_MEMBER_ID        UNKNOWN_MEMBER_ID
    LeaveGroup

  (1) So does an empty streams group.

Errors are answers, or raised where there is nothing to wait for; every call may end with NotCoordinator and CoordinatorLoadInProgress.

Source: GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, Join, JoinAnswer, Joined, Leave, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.kind import GroupType
from minibroker.coordinator.group.live_groups import LiveGroups
from minibroker.coordinator.group.store import StoredShard
from minibroker.errors import (
    CoordinatorLoadInProgress,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    KafkaError,
    UnknownMemberId,
)

Left = Callable[[list[type[KafkaError] | None]], None]

_REPLACEABLE = frozenset({GroupType.CONSUMER, GroupType.STREAMS})  #: by a classic group, once nobody is in them
_TAKE_CLASSIC_MEMBERS = frozenset({GroupType.CLASSIC, GroupType.CONSUMER})


class TakesClassicMembers(Protocol):
    """A group's machine that members may join by the classic protocol."""

    def join(self, join: Join, joined: Joined) -> None:
        """JoinGroup."""

    def sync(self, sync: Sync, synced: Synced) -> None:
        """SyncGroup."""

    def classic_heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Heartbeat; KafkaError."""

    def leave(self, leaving: Sequence[Leave]) -> list[type[KafkaError] | None]:
        """LeaveGroup: None for each that is gone."""


class Memberships(LiveGroups):
    """Of all groups."""

    # Requests

    def join(self, group_id: str, join: Join, joined: Joined) -> None:
        """Become a member, or take part in the next generation."""

        def refused(error: type[KafkaError]) -> JoinAnswer:
            return JoinAnswer(join.member_id, error=error)

        try:
            self._check_join(group_id, join)
            size = sum(len(each.name) + len(each.metadata) for each in join.protocols)
            join = join._replace(charge=self.member_memory.charge(size))
            stored = self.shard_of(group_id)
            group = self._group_to_join(stored, group_id, join.member_id)
        except InconsistentGroupProtocol as error:
            joined(JoinAnswer(UNKNOWN_MEMBER_ID, error=type(error)))
            return
        except KafkaError as error:
            joined(refused(type(error)))
            return
        group.join(join, self.when_safe(stored, joined, refused))

    def sync(self, group_id: str, sync: Sync, synced: Synced) -> None:
        """Ask for what the member shall read."""

        def refused(error: type[KafkaError]) -> SyncAnswer:
            return SyncAnswer(error=error)

        try:
            stored, group = self._group_of_member(group_id)
        except KafkaError as error:
            synced(refused(type(error)))
            return
        group.sync(sync, self.when_safe(stored, synced, refused))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """A member is alive; KafkaError kinds of classic/group.py. While its group is being read nobody knows better."""
        try:
            _, group = self._group_of_member(group_id)
        except CoordinatorLoadInProgress:
            return
        group.classic_heartbeat(member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[Leave], left: Left) -> None:
        """Members go: for each the error or None. InvalidGroupId and the like are raised."""
        try:
            stored, group = self._group_of_member(group_id)
        except UnknownMemberId:
            left([UnknownMemberId] * len(leaving))
            return

        def failed(error: type[KafkaError]) -> list[type[KafkaError] | None]:
            return [error] * len(leaving)

        self.when_safe(stored, left, failed)(group.leave(leaving))

    def _check_join(self, group_id: str, join: Join) -> None:
        if not group_id:
            raise InvalidGroupId
        if not self.config.group_min_session_timeout_ms <= join.session_timeout_ms <= self.config.group_max_session_timeout_ms:
            raise InvalidSessionTimeout

    def _group_to_join(self, stored: StoredShard, group_id: str, member_id: str) -> TakesClassicMembers:
        group = self.find(stored, group_id)
        if isinstance(group, ClassicGroup) or (group is not None and group.group_type is GroupType.CONSUMER and not group.is_empty):
            return cast("TakesClassicMembers", group)
        if group_id in stored.shard.groups and not (group is not None and group.group_type in _REPLACEABLE and group.is_empty):
            raise InconsistentGroupProtocol
        if member_id != UNKNOWN_MEMBER_ID:
            raise UnknownMemberId
        first_records = [] if group is None else group.tombstones()
        return cast("TakesClassicMembers", self.begin(stored, group_id, GroupType.CLASSIC, first_records=first_records))

    def _group_of_member(self, group_id: str) -> tuple[StoredShard, TakesClassicMembers]:
        if not group_id:
            raise InvalidGroupId
        stored = self.shard_of(group_id)
        group = self.find(stored, group_id)
        if group is None or group.group_type not in _TAKE_CLASSIC_MEMBERS:
            raise UnknownMemberId
        return stored, cast("TakesClassicMembers", group)
