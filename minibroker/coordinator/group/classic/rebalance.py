"""The rebalances of a classic group: how it gets from one generation to the next, and its timers.

    state                 next state
    Empty                 PreparingRebalance    a member joins
    PreparingRebalance    CompletingRebalance   all have joined, or the longest rebalance time-out has passed; a new group first
                                                waits for more members (group.initial.rebalance.delay.ms)
                          Empty                 no members remain
    CompletingRebalance   Stable                the leader sent the assignment, and it is stored
                          PreparingRebalance    a member joins, leaves, changes, or does not sync in time
    Stable                PreparingRebalance    a member joins, leaves, changes, or does not sync in time

    timer                                 runs for                         when it expires
    session of a member                   its session time-out             it is removed, unless a request of it waits
      of a member that never got its id                                    (five minutes, and even while its JoinGroup waits)
    session of an id not yet joined       the session time-out of its      the id is invalid
                                          JoinGroup
    joining                               the longest rebalance time-out   members that have not joined are removed, except static ones
    syncing                               the longest rebalance time-out   members that have not synced are removed

Invariants
  - generation_id never decreases, and grows by one with each generation
  - a request waits only if it will be answered: JoinGroup in PreparingRebalance, SyncGroup in
    CompletingRebalance
  - a generation is stored before an answer that contains it is sent

Kafka's state Dead does not exist here: the coordinator drops the state machine of a deleted group,
and `unload` answers its waiting members. Source: GroupMetadataManager, ClassicGroup of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

from minibroker.clock import Clock, Timer
from minibroker.coordinator.group.classic.members import ClassicMember, MemberTable, members_of, value_of_members
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, JoinAnswer, JoinedMember, SyncAnswer
from minibroker.coordinator.group.membership_log import is_logged, log_members
from minibroker.errors import KafkaError, RebalanceInProgress, UnknownMemberId
from minibroker.schemas.internal.offset_records import GroupMetadataValue

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
_INT_MAX: Final = 2**31 - 1

_LOG = logging.getLogger(__name__)


class ClassicGroupState(Enum):
    """The state of a classic group, as DescribeGroups and ListGroups spell it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicGroupLimits(NamedTuple):
    """The broker configs of classic groups."""

    max_size: int = _INT_MAX  #: group.max.size
    initial_rebalance_delay_ms: int = 0  #: group.initial.rebalance.delay.ms


def no_follower() -> None:
    """Do nothing: no caller follows the group."""


PersistGeneration = Callable[[GroupMetadataValue], None]  #: appends the record of the group; KafkaError


class Rebalance:
    """The generations of one group, its members and their timers.

    ClassicGroup takes the requests. Attributes are for reading.
    """

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        persist: PersistGeneration,
        limits: ClassicGroupLimits,
        stored: GroupMetadataValue | None = None,
        members: MemberTable | None = None,
        changed: Callable[[], None] = no_follower,
    ) -> None:
        """Create a group, or continue with `stored`, the last record of a group that the log has: then `resume` must follow.

        `members` are those of `stored`, if the caller knows more about them than the record has. `changed` is called after each change
        of the state.
        """
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.generation_id = 0
        self.protocol_name: str | None = None  #: of this generation
        self.members = MemberTable()
        self.pending: dict[str, Timer] = {}  #: ids given to members that have not joined yet
        self.limits = limits
        self.state_timestamp_ms = clock.now_ms()
        self._clock = clock
        self._persist = persist
        self._changed = changed
        self._is_stored = stored is not None
        self._is_initial = False  #: this rebalance started from an empty group
        self._has_grown = False  #: a member joined since the initial rebalance was last delayed
        self._unsynced: set[str] = set()  #: members of this generation that have not sent SyncGroup
        self._joining: Timer | None = None
        self._syncing: Timer | None = None
        self._logged: frozenset[str] = frozenset()  #: the members that the last log line named
        if stored is not None:
            self.generation_id = stored.generation
            self.protocol_name = stored.protocol
            self.members = members or members_of(stored)
            self.state = ClassicGroupState.STABLE if len(self.members) else ClassicGroupState.EMPTY
            self._logged = frozenset(member.member_id for member in self.members)
            if stored.current_state_timestamp >= 0:
                self.state_timestamp_ms = stored.current_state_timestamp

    # Life

    def resume(self, *, must_rebalance: bool) -> None:
        """Start the session time-outs of the members of a stored group.

        `must_rebalance` makes them join again.
        """
        for member in self.members:
            self.renew(member)
        if must_rebalance or len(self.members) > self.limits.max_size:
            self.prepare()

    def unload(self, error: type[KafkaError]) -> None:
        """Cancel all timers, and answer waiting members with `error`."""
        for timer in (self._joining, self._syncing, *self.pending.values(), *(member.session for member in self.members)):
            _cancel(timer)
        for member in self.members:
            member.answer_join(JoinAnswer(member.member_id, error=error))
            member.answer_sync(SyncAnswer(error=error))

    def store(self) -> None:
        """Append the record of the group as it is now; KafkaError."""
        self._persist(value_of_members(self.members, self.generation_id, self.protocol_name, self.state_timestamp_ms))

    def store_if_new(self) -> None:
        """Append the first record of a new group, before its first member joins; KafkaError."""
        if not self._is_stored:
            self.store()
            self._is_stored = True

    # Generations

    def start_or_continue(self) -> None:
        """Start a rebalance because a member changed.

        If one is running, complete it once all members have joined.
        """
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined()
        else:
            self.prepare()

    def prepare(self) -> None:
        """Start a rebalance: all members must join again."""
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._fail_syncs(RebalanceInProgress)
        self._unsynced.clear()
        _cancel(self._syncing)
        self._is_initial = self.state is ClassicGroupState.EMPTY
        self._move_to(ClassicGroupState.PREPARING_REBALANCE)
        if self._is_initial:
            self._has_grown = False
            delay_ms = self.limits.initial_rebalance_delay_ms
            self._delay_initial(delay_ms, max(self.members.rebalance_timeout_ms - delay_ms, 0))
        elif self._has_all_joined():
            self._complete_join()
        else:
            self._wait_for_joins()

    def _delay_initial(self, delay_ms: int, remaining_ms: int) -> None:
        """Delay the first rebalance, and delay it again while members join, up to their rebalance time-out."""

        def end_delay() -> None:
            if self._has_grown and remaining_ms:
                self._has_grown = False
                again_ms = min(self.limits.initial_rebalance_delay_ms, remaining_ms)
                self._delay_initial(again_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join()

        self._joining = self._clock.call_later_ms(delay_ms, end_delay)

    def _wait_for_joins(self) -> None:
        _cancel(self._joining)
        self._joining = self._clock.call_later_ms(self.members.rebalance_timeout_ms, self._complete_join)

    def _has_all_joined(self) -> bool:
        return not self.pending and self.members.have_all_joined()

    def complete_if_all_joined(self) -> None:
        """Complete the rebalance if it waits for no more members. Does nothing in other states."""
        if self.state is ClassicGroupState.PREPARING_REBALANCE and not self._is_initial and self._has_all_joined():
            self._complete_join()

    def _complete_join(self) -> None:
        """Start the next generation with the members that have joined, and with static members that have not."""
        _cancel(self._joining)
        for member in self.members:
            if member.joined is None and not member.is_static:
                self._log_removal(member.member_id, "it did not join again in time")
                self.forget(member.member_id)
        if len(self.members) and not self.members.elect():
            self._wait_for_joins()  # only static members remain, and none of them has joined
            return
        self.generation_id += 1
        self._unsynced.clear()
        if len(self.members):
            self._begin_generation()
        else:
            self._become_empty()
        self._log_generation()

    def _begin_generation(self) -> None:
        self.protocol_name = self.members.select()
        self._move_to(ClassicGroupState.COMPLETING_REBALANCE)
        for member in self.members:
            member.is_new = False
            self._unsynced.add(member.member_id)
            self.renew(member)
        self._syncing = self._clock.call_later_ms(self.members.rebalance_timeout_ms, self._expire_syncs)
        for member in self.members:
            member.answer_join(self.join_answer(member))

    def _become_empty(self) -> None:
        self.protocol_name = None
        self._move_to(ClassicGroupState.EMPTY)
        try:
            self.store()
        except KafkaError as error:
            _LOG.warning("group %s: could not store the empty group: %s", self.group_id, error)

    def join_answer(self, member: ClassicMember) -> JoinAnswer:
        """Return the answer to a member's JoinGroup in this generation."""
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

    def _fail_syncs(self, error: type[KafkaError]) -> None:
        for member in self.members:
            if member.answer_sync(SyncAnswer(error=error)):
                self.renew(member)

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Store the leader's assignment and answer all waiting SyncGroup requests.

        If it cannot be stored, start a rebalance.
        """
        before = [(member, member.assignment) for member in self.members]
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        try:
            self.store()
        except KafkaError as error:
            for member, assignment in before:
                member.assignment = assignment
            self._fail_syncs(type(error))
            self.prepare()
            return
        self._move_to(ClassicGroupState.STABLE)
        for member in self.members:
            if member.answer_sync(self.sync_answer(member)):
                self.renew(member)

    def sync_answer(self, member: ClassicMember) -> SyncAnswer:
        """Return the answer to a member's SyncGroup in this generation."""
        return SyncAnswer(member.assignment, self.members.protocol_type, self.protocol_name)

    def note_sync(self, member_id: str) -> None:
        """Stop waiting for the SyncGroup of this member."""
        self._unsynced.discard(member_id)
        if not self._unsynced:
            _cancel(self._syncing)

    def _expire_syncs(self) -> None:
        for member_id in list(self._unsynced):
            self._log_removal(member_id, "it did not sync in time")
            self.forget(member_id)
        self.prepare()

    def _move_to(self, state: ClassicGroupState) -> None:
        self.state = state
        self.state_timestamp_ms = self._clock.now_ms()
        self._changed()

    # Log lines

    def _log_generation(self) -> None:
        if is_logged():
            members = {member.member_id: member for member in self.members}
            log_members(self.group_id, f"generation {self.generation_id}", self._logged, members)
            self._logged = frozenset(members)

    def _log_removal(self, member_id: str, why: str) -> None:
        _LOG.info("group %s: member %s was removed: %s", self.group_id, member_id, why)

    # Members that join and leave

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a new member."""
        self._has_grown = True
        self.members.add(member, protocol_type)

    def replace(self, before: ClassicMember, member: ClassicMember) -> None:
        """Give the place of a static member to `member`, which has the same instance id."""
        _cancel(before.session)
        member.is_new = False
        member.assignment = before.assignment
        self.members.replace(before, member)
        if before.member_id in self._unsynced:
            self._unsynced.remove(before.member_id)
            self._unsynced.add(member.member_id)
        self.renew(member)

    def forget(self, member_id: str) -> None:
        """Remove a member, or an id that was given to one that has not joined yet.

        Does nothing for other ids.
        """
        _cancel(self.pending.pop(member_id, None))
        if member_id in self.members:
            member = self.members[member_id]
            _cancel(member.session)
            member.answer_join(JoinAnswer(UNKNOWN_MEMBER_ID, error=UnknownMemberId))
            member.answer_sync(SyncAnswer(error=UnknownMemberId))
            self.members.remove(member_id)
            self._unsynced.discard(member_id)

    def renew(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Start the session time-out of a member again."""
        _cancel(member.session)
        delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
        member.session = self._clock.call_later_ms(delay_ms, partial(self._expire_session, member))

    def _expire_session(self, member: ClassicMember) -> None:
        if not member.is_new and (member.joined is not None or member.synced is not None):
            return  # the answer to its waiting request will renew the session
        self._log_removal(member.member_id, "its session timed out")
        self.forget(member.member_id)
        self.start_or_continue()

    def expect(self, member_id: str, session_timeout_ms: int) -> None:
        """Remember an id given to a member that is about to join (KIP-394).

        It expires after the session time-out.
        """
        self.pending[member_id] = self._clock.call_later_ms(session_timeout_ms, partial(self._expire_pending, member_id))

    def _expire_pending(self, member_id: str) -> None:
        self.forget(member_id)
        self.complete_if_all_joined()


def _cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
