"""How a classic group goes from one generation to the next, and what time does to it.

    state                 goes on to
    Empty                 PreparingRebalance    a member joins
    PreparingRebalance    CompletingRebalance   all have joined, or the rebalance time-out of the slowest is over; a new group waits for
                                                more members first (group.initial.rebalance.delay.ms)
                          Empty                 nobody is left
    CompletingRebalance   Stable                the leader sent the assignment, and it is stored
                          PreparingRebalance    somebody joins, leaves, changes, or does not sync in time
    Stable                PreparingRebalance    somebody joins, leaves, changes, or does not sync in time

    timer                                 runs for                         when it is over
    session of a member                   its session time-out             it is gone; not while a request of its waits
      of a member that was never told its id                               (five minutes, and even while its JoinGroup waits)
    session of an id that was given out   the session time-out it wants    the id is worth nothing
    joining                               the longest rebalance time-out   who has not joined is gone, but for static members
    syncing                               the longest rebalance time-out   who has not synced is gone

Invariants
  - generation_id never goes back, and grows by one with each generation
  - a request waits only where something will answer it: joins in PreparingRebalance, syncs in CompletingRebalance
  - what members are told of a generation is stored before they are told

Apache Kafka's Dead is a group that is not there any more: here such a group is forgotten by whoever holds it, and `unload` answers
who still waits. Source: GroupMetadataManager, ClassicGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.coordinator.group.classic.members import Member, Members
from minibroker.coordinator.group.classic.records import members_of, value_of
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinAnswer, JoinedMember, SyncAnswer
from minibroker.coordinator.group.membership_log import is_told, tell
from minibroker.errors import KafkaError, NotCoordinator, RebalanceInProgress, UnknownMemberId
from minibroker.schemas.internal.offset_records import GroupMetadataValue

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
_INT_MAX: Final = 2**31 - 1

_LOG = logging.getLogger(__name__)


class GroupState(Enum):
    """As DescribeGroups and ListGroups spell it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class Limits(NamedTuple):
    """What the broker's configuration says of classic groups."""

    max_size: int = _INT_MAX  #: group.max.size
    initial_rebalance_delay_ms: int = 0  #: group.initial.rebalance.delay.ms


Persist = Callable[[GroupMetadataValue], None]  #: appends the record of the group; KafkaError when that fails


class Rebalance:
    """Generations and timers of one group; requests are ClassicGroup's. Attributes are for reading."""

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        persist: Persist,
        limits: Limits,
        stored: GroupMetadataValue | None = None,
        members: Members | None = None,
    ) -> None:
        """`stored` is the last record of a group that the log knows; `resume` must follow then. `members`: who says more than it keeps."""
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = clock.now_ms()
        self.generation_id = 0
        self.protocol_name: str | None = None  #: of this generation
        self.members = Members()
        self._clock = clock
        self._persist = persist
        self._limits = limits
        self._is_stored = stored is not None
        self._is_initial = False  #: this rebalance began with nobody there
        self._has_grown = False  #: somebody came since the initial rebalance was delayed last
        self._pending: dict[str, Timer] = {}  #: ids that were given out to members that have not joined yet
        self._unsynced: set[str] = set()  #: members of this generation whose SyncGroup has not come
        self._joining: Timer | None = None
        self._syncing: Timer | None = None
        self._told: frozenset[str] = frozenset()  #: who was there when the log was told of the group last
        if stored is not None:
            self.generation_id = stored.generation
            self.protocol_name = stored.protocol
            self.members = members or members_of(stored)
            self.state = GroupState.STABLE if len(self.members) else GroupState.EMPTY
            self._told = frozenset(member.member_id for member in self.members)
            if stored.current_state_timestamp >= 0:
                self.state_timestamp_ms = stored.current_state_timestamp

    # Life

    def resume(self, *, must_rebalance: bool = False) -> None:
        """The log is read: members have a session time-out to be heard of again. `must_rebalance`: and they must agree anew."""
        for member in self.members:
            self._renew(member)
        if must_rebalance or len(self.members) > self._limits.max_size:
            self._prepare()

    def unload(self) -> None:
        """This broker coordinates the group no more: who waits is told to look for another."""
        for timer in (self._joining, self._syncing, *self._pending.values(), *(member.session for member in self.members)):
            _cancel(timer)
        self.send_away(NotCoordinator)

    def send_away(self, error: type[KafkaError]) -> None:
        """Nobody waits any more."""
        for member in self.members:
            member.answer_join(JoinAnswer(member.member_id, error=error))
            member.answer_sync(SyncAnswer(error=error))

    # Generations

    def _rebalance(self) -> None:
        """Something changed: a new generation must come, or the one that is coming has one reason less to wait."""
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined()
        else:
            self._prepare()

    def _prepare(self) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._give_up_sync(RebalanceInProgress)
        self._unsynced.clear()
        _cancel(self._syncing)
        self._is_initial = self.state is GroupState.EMPTY
        self._move_to(GroupState.PREPARING_REBALANCE)
        if self._is_initial:
            self._has_grown = False
            delay_ms = self._limits.initial_rebalance_delay_ms
            self._delay_initial(delay_ms, max(self.members.rebalance_timeout_ms - delay_ms, 0))
        elif self._has_all_joined():
            self._complete_join()
        else:
            self._wait_for_joins()

    def _delay_initial(self, delay_ms: int, remaining_ms: int) -> None:
        """Wait for more members, and longer while they come, up to their rebalance time-out."""

        def is_over() -> None:
            if self._has_grown and remaining_ms:
                self._has_grown = False
                again_ms = min(self._limits.initial_rebalance_delay_ms, remaining_ms)
                self._delay_initial(again_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join()

        self._joining = self._clock.call_later_ms(delay_ms, is_over)

    def _wait_for_joins(self) -> None:
        _cancel(self._joining)
        self._joining = self._clock.call_later_ms(self.members.rebalance_timeout_ms, self._complete_join)

    def _has_all_joined(self) -> bool:
        return not self._pending and all(member.joined is not None for member in self.members)

    def _complete_if_all_joined(self) -> None:
        if self.state is GroupState.PREPARING_REBALANCE and not self._is_initial and self._has_all_joined():
            self._complete_join()

    def _complete_join(self) -> None:
        """The next generation: of those who have joined, and of static members that are away."""
        _cancel(self._joining)
        for member in self.members:
            if member.joined is None and not member.is_static:
                self._tell_gone(member.member_id, "it did not join again in time")
                self._forget(member.member_id)
        if len(self.members) and not self.members.elect():
            self._wait_for_joins()  # static members, and none of them is there
            return
        self.generation_id += 1
        self._unsynced.clear()
        if len(self.members):
            self._begin_generation()
        else:
            self._become_empty()
        self._tell()

    def _begin_generation(self) -> None:
        self.protocol_name = self.members.select()
        self._move_to(GroupState.COMPLETING_REBALANCE)
        for member in self.members:
            member.is_new = False
            self._unsynced.add(member.member_id)
            self._renew(member)
        self._syncing = self._clock.call_later_ms(self.members.rebalance_timeout_ms, self._sync_is_over)
        for member in self.members:
            member.answer_join(self._joined(member))

    def _become_empty(self) -> None:
        self.protocol_name = None
        self._move_to(GroupState.EMPTY)
        try:
            self._persist(value_of(self))
        except KafkaError as error:
            _LOG.warning("group %s is empty, which could not be stored: %s", self.group_id, error)

    def _joined(self, member: Member) -> JoinAnswer:
        """What a member is told of this generation."""
        is_leader = member.member_id == self.members.leader_id
        return JoinAnswer(
            member.member_id,
            self.generation_id,
            self.members.protocol_type,
            self.protocol_name,
            self.members.leader_id or "",
            self._described() if is_leader else (),
        )

    def _described(self) -> tuple[JoinedMember, ...]:
        return tuple(JoinedMember(each.member_id, each.group_instance_id, each.metadata(self.protocol_name)) for each in self.members)

    def _give_up_sync(self, error: type[KafkaError]) -> None:
        for member in self.members:
            if member.answer_sync(SyncAnswer(error=error)):
                self._renew(member)

    def _has_synced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            _cancel(self._syncing)

    def _sync_is_over(self) -> None:
        for member_id in list(self._unsynced):
            self._tell_gone(member_id, "it did not sync in time")
            self._forget(member_id)
        self._prepare()

    def _move_to(self, state: GroupState) -> None:
        self.state = state
        self.state_timestamp_ms = self._clock.now_ms()

    # What the broker's log says

    def _tell(self) -> None:
        if is_told():
            members = {member.member_id: member for member in self.members}
            tell(self.group_id, f"generation {self.generation_id}", self._told, members)
            self._told = frozenset(members)

    def _tell_gone(self, member_id: str, why: str) -> None:
        _LOG.info("group %s: member %s is gone: %s", self.group_id, member_id, why)

    # Members that come and go

    def _forget(self, member_id: str) -> None:
        """A member, or an id that was given out, is gone; harmless for others."""
        _cancel(self._pending.pop(member_id, None))
        if member_id in self.members:
            member = self.members[member_id]
            _cancel(member.session)
            member.answer_join(JoinAnswer(UNKNOWN_MEMBER_ID, error=UnknownMemberId))
            member.answer_sync(SyncAnswer(error=UnknownMemberId))
            self.members.remove(member_id)
            self._unsynced.discard(member_id)

    def _renew(self, member: Member, timeout_ms: int | None = None) -> None:
        """The member was heard of: its session begins anew."""
        _cancel(member.session)
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session = self._clock.call_later_ms(delay_ms, partial(self._session_is_over, member))

    def _session_is_over(self, member: Member) -> None:
        if not member.is_new and (member.joined is not None or member.synced is not None):
            return  # it waits for us; the answer begins another session
        self._tell_gone(member.member_id, "its session timed out")
        self._forget(member.member_id)
        self._rebalance()

    def _give_out(self, member_id: str, session_timeout_ms: int) -> None:
        """Expect a member with this id."""
        self._pending[member_id] = self._clock.call_later_ms(session_timeout_ms, partial(self._pending_is_over, member_id))

    def _pending_is_over(self, member_id: str) -> None:
        self._forget(member_id)
        self._complete_if_all_joined()


def _cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
