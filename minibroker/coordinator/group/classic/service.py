"""The service of members that use the classic protocol: it finds their group, and answers when its log is synced.

    request                    a classic group    a consumer group               an empty one             one of another kind
    JoinGroup                  classic/group      consumer/classic_members       becomes classic (1)      INCONSISTENT_GROUP_PROTOCOL
    SyncGroup, Heartbeat,      classic/group      consumer/classic_members       UNKNOWN_MEMBER_ID        UNKNOWN_MEMBER_ID
    LeaveGroup

  (1) An empty streams group also becomes classic.

Errors are part of the answers, or raised by calls that answer immediately. Every call may fail with
NotCoordinator and CoordinatorLoadInProgress.

Source: GroupCoordinatorService of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from minibroker.coordinator.group.classic.group import ClassicGroup
from minibroker.coordinator.group.classic.members import MemberTable, group_record
from minibroker.coordinator.group.classic.rebalance import ClassicGroupLimits
from minibroker.coordinator.group.classic.requests import (
    UNKNOWN_MEMBER_ID,
    Join,
    JoinAnswer,
    Joined,
    Leave,
    MemberMemory,
    Sync,
    SyncAnswer,
    Synced,
)
from minibroker.coordinator.group.kind import GroupType, Persist, StoredGroup
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

if TYPE_CHECKING:
    from minibroker.coordinator.group.consumer.group import ConsumerGroup

Left = Callable[[list[type[KafkaError] | None]], None]

_REPLACEABLE = frozenset({GroupType.CONSUMER, GroupType.STREAMS})  #: by a classic group, when they are empty


class ClassicProtocolGroup(Protocol):
    """A group that members may join by the classic protocol: a classic group, or the classic members of a consumer group."""

    def join(self, join: Join, joined: Joined) -> None:
        """Serve JoinGroup."""

    def sync(self, sync: Sync, synced: Synced) -> None:
        """Serve SyncGroup."""

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Serve Heartbeat; KafkaError."""

    def leave(self, leaving: Sequence[Leave]) -> list[type[KafkaError] | None]:
        """Serve LeaveGroup: None for each member that was removed, or its error."""


class ClassicGroups:
    """The service of the classic protocol, for all groups."""

    def __init__(self, groups: LiveGroups) -> None:
        self._groups = groups
        self.member_memory = MemberMemory()

    def new_image(self) -> None:
        """Return None: the last record of a classic group is its state."""

    def make(self, group_id: str, known: StoredGroup, persist: Persist, members: MemberTable | None = None) -> ClassicGroup:
        """Create the state machine of a group.

        `members` are those of `known`, if the caller knows more about them than the record has.
        """
        config = self._groups.config
        return ClassicGroup(
            group_id,
            clock=self._groups.clock,
            persist=lambda value: persist([group_record(group_id, value)]),
            limits=ClassicGroupLimits(config.group_max_size, config.group_initial_rebalance_delay_ms),
            stored=known.stored,
            members=members,
            changed=partial(self._groups.changed, group_id),
            must_rebalance=known.was_downgraded,
        )

    def take_over(self, group_id: str, members: MemberTable, *, must_rebalance: bool) -> None:
        """Continue as a classic group after a downgrade, which is already in the log.

        `members` have more data than the record.
        """
        stored = self._groups.shard_of(group_id)
        self._groups.forget(stored, group_id)
        known = stored.shard.groups[group_id]._replace(was_downgraded=must_rebalance)
        stored.live[group_id] = group = self.make(group_id, known, partial(self._groups.persist, stored), members)
        group.resume()

    def describe(self, group_id: str) -> ClassicGroup:
        """Return a group for reading; GroupIdNotFound if there is no classic group of this id."""
        return self._groups.find_of_type(group_id, ClassicGroup, "classic")[1]

    # Requests

    def join(self, group_id: str, join: Join, joined: Joined) -> None:
        """Serve JoinGroup."""

        def failed(error: type[KafkaError]) -> JoinAnswer:
            return JoinAnswer(join.member_id, error=error)

        try:
            self._check_join(group_id, join)
            size = sum(len(each.name) + len(each.metadata) for each in join.protocols)
            join = join._replace(charge=self.member_memory.charge(size))
            stored = self._groups.shard_of(group_id)
            group = self._group_to_join(stored, group_id, join.member_id)
        except InconsistentGroupProtocol as error:
            joined(JoinAnswer(UNKNOWN_MEMBER_ID, error=type(error)))
            return
        except KafkaError as error:
            joined(failed(type(error)))
            return
        group.join(join, self._groups.when_safe(stored, joined, failed))

    def sync(self, group_id: str, sync: Sync, synced: Synced) -> None:
        """Serve SyncGroup."""

        def failed(error: type[KafkaError]) -> SyncAnswer:
            return SyncAnswer(error=error)

        try:
            stored, group = self._group_of_member(group_id)
        except KafkaError as error:
            synced(failed(type(error)))
            return
        group.sync(sync, self._groups.when_safe(stored, synced, failed))

    def heartbeat(self, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Renew the session of a member; KafkaError.

        Accept any member while the log of the group is being read.
        """
        try:
            _, group = self._group_of_member(group_id)
        except CoordinatorLoadInProgress:
            return
        group.heartbeat(member_id, group_instance_id, generation_id)

    def leave(self, group_id: str, leaving: Sequence[Leave], left: Left) -> None:
        """Remove members: `left` receives None or an error for each.

        Errors of the whole request are raised.
        """
        try:
            stored, group = self._group_of_member(group_id)
        except UnknownMemberId:
            left([UnknownMemberId] * len(leaving))
            return

        def failed(error: type[KafkaError]) -> list[type[KafkaError] | None]:
            return [error] * len(leaving)

        self._groups.when_safe(stored, left, failed)(group.leave(leaving))

    def _check_join(self, group_id: str, join: Join) -> None:
        if not group_id:
            raise InvalidGroupId
        config = self._groups.config
        if not config.group_min_session_timeout_ms <= join.session_timeout_ms <= config.group_max_session_timeout_ms:
            raise InvalidSessionTimeout

    def _group_to_join(self, stored: StoredShard, group_id: str, member_id: str) -> ClassicProtocolGroup:
        group = self._groups.find(stored, group_id)
        if isinstance(group, ClassicGroup):
            return group
        if group is not None and group.group_type is GroupType.CONSUMER and not group.is_empty:
            return cast("ConsumerGroup", group).classic_members
        if group_id in stored.shard.groups and not (group is not None and group.group_type in _REPLACEABLE and group.is_empty):
            raise InconsistentGroupProtocol
        if member_id != UNKNOWN_MEMBER_ID:
            raise UnknownMemberId
        first_records = [] if group is None else group.tombstones()
        return cast("ClassicGroup", self._groups.begin(stored, group_id, GroupType.CLASSIC, first_records=first_records))

    def _group_of_member(self, group_id: str) -> tuple[StoredShard, ClassicProtocolGroup]:
        if not group_id:
            raise InvalidGroupId
        stored = self._groups.shard_of(group_id)
        group = self._groups.find(stored, group_id)
        if isinstance(group, ClassicGroup):
            return stored, group
        if group is not None and group.group_type is GroupType.CONSUMER:
            return stored, cast("ConsumerGroup", group).classic_members
        raise UnknownMemberId
