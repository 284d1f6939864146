"""A classic group: what its members ask for. What becomes of it between requests: rebalance.py.

                             Empty            PreparingRebalance    CompletingRebalance       Stable
  JoinGroup
    no member id (1)         -> Preparing     waits                 -> Preparing, waits       -> Preparing, waits
    its own id (2)           25               waits                 same protocols: told      follower, same protocols: told
                                                                    again; else -> Preparing  again; else -> Preparing, waits
    static, without id (3)   -> Preparing     waits, in its place   -> Preparing, waits       same protocol: told again, and stored;
                                                                                              else -> Preparing, waits
  SyncGroup (4)              25               27                    waits; of the leader:     its assignment
                                                                    stored -> Stable, told
  Heartbeat (4)              25               27, renewed           renewed                   renewed
  LeaveGroup                 25               gone                  gone -> Preparing         gone -> Preparing
  OffsetCommit, no id        committed        25                    25                        25
    of a member (4)          25               committed, renewed    27                        committed, renewed
  TxnOffsetCommit, no id     committed        committed             committed                 committed
    of a member (4)          25               committed             committed                 committed

  25 UNKNOWN_MEMBER_ID   27 REBALANCE_IN_PROGRESS   waits: answered with the next generation (JoinGroup) or its assignment (SyncGroup)
  (1) From JoinGroup 4 on it is given an id first, with MEMBER_ID_REQUIRED, and joins with that, so that a lost answer leaves no member
      behind (KIP-394). A rebalance waits for such ids, too. Not so for static members.
  (2) An id that was given out joins as (1) does without one; an id that is not known is 25.
  (3) Whoever had the place before is FENCED_INSTANCE_ID from then on, also where it waits (KIP-345).
  (4) First: 25 for an id that is not known, FENCED_INSTANCE_ID for one that another member replaced, ILLEGAL_GENERATION for another
      generation, and INCONSISTENT_GROUP_PROTOCOL where SyncGroup 5 names another protocol.

A JoinGroup is refused before all that with GROUP_MAX_SIZE_REACHED, or INCONSISTENT_GROUP_PROTOCOL where not all would have a protocol in
common. Where Apache Kafka differs: LeaveGroup of an id that was only given out begins a rebalance there; a request that waits is not
answered there when the member sends it again (here REBALANCE_IN_PROGRESS); a rebalance goes on waiting there for who was refused in a
full group; among protocols of equal votes its hash table decides.

Source: GroupMetadataManager of Apache Kafka 4.3.1; KIP-62, KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

from minibroker.clock import Clock
from minibroker.coordinator.group.classic.consumer_protocol import CONSUMER, topics_of
from minibroker.coordinator.group.classic.members import Member, Members, names
from minibroker.coordinator.group.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupState, Limits, Persist, Rebalance
from minibroker.coordinator.group.classic.records import SIMPLE_TYPE, value_of
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, Join, JoinAnswer, Joined, Leave, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.kind import CheckCommit, GroupType, may_commit_all
from minibroker.coordinator.group.offset_records import group_tombstone
from minibroker.coordinator.group.offsets import Membership
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)
from minibroker.schemas.internal.offset_records import GroupMetadataValue

#: Of a client id or an instance id in a member id: a longer one would not fit into an answer's string. Kafka's clients allow as much.
MAX_MEMBER_NAME_LETTERS: Final = 249


def new_member_id(join: Join) -> str:
    """An id that nobody had before: behind the instance of a static member, the client id of others."""
    begins_with = join.group_instance_id if join.group_instance_id is not None else join.client_id
    return f"{begins_with[:MAX_MEMBER_NAME_LETTERS]}-{uuid4()}"


class ClassicGroup(Rebalance):
    """Requests of one group. `joined` and `synced` are called once: before the call returns, or when what they wait for has come."""

    group_type = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        persist: Persist,
        limits: Limits | None = None,
        stored: GroupMetadataValue | None = None,
        members: Members | None = None,
        draw_member_id: Callable[[Join], str] = new_member_id,
    ) -> None:
        super().__init__(group_id, clock=clock, persist=persist, limits=limits or Limits(), stored=stored, members=members)
        self._draw_member_id = draw_member_id

    # JoinGroup

    def join(self, join: Join, joined: Joined) -> None:
        """Take part in the next generation, or be told of this one again."""
        try:
            self._check_join(join)
            self._store_if_new()
        except KafkaError as error:
            is_full = isinstance(error, GroupMaxSizeReached)
            joined(JoinAnswer(UNKNOWN_MEMBER_ID if is_full else join.member_id, error=type(error)))
            self._complete_if_all_joined()  # who was refused may have been waited for
            return
        if join.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(join, joined)
        elif join.member_id in self._pending and join.group_instance_id is None:  # only dynamic members are given an id first
            self._add(join.member_id, join, joined)
        else:
            self._join_again(join, joined)

    def _check_join(self, join: Join) -> None:
        if not self._has_room(join.member_id):
            self._forget(join.member_id)
            raise GroupMaxSizeReached
        if not self.members.supports(join.protocol_type, names(join.protocols)):
            raise InconsistentGroupProtocol

    def _has_room(self, member_id: str) -> bool:
        """While a generation is made its members count, who may be fewer than are there."""
        if self.state is GroupState.EMPTY:
            return True
        if self.state is not GroupState.PREPARING_REBALANCE:
            return member_id in self.members or len(self.members) < self._limits.max_size
        if member_id in self.members and self.members[member_id].joined is not None:
            return True
        return sum(member.joined is not None for member in self.members) < self._limits.max_size

    def _store_if_new(self) -> None:
        """A group is in the log from its first member on."""
        if not self._is_stored:
            self._persist(value_of(self))
            self._is_stored = True

    def _join_new(self, join: Join, joined: Joined) -> None:
        member_id = self._draw_member_id(join)
        before = self.members.of_instance(join.group_instance_id)
        if before is not None:
            self._replace(before, Member(member_id, join), join, joined)
        elif join.group_instance_id is None and join.requires_known_member_id:
            if len(self._pending) >= self._limits.max_size:
                joined(JoinAnswer(UNKNOWN_MEMBER_ID, error=GroupMaxSizeReached))
                return
            self._give_out(member_id, join.session_timeout_ms)
            joined(JoinAnswer(member_id, error=MemberIdRequired))
        else:
            self._add(member_id, join, joined)

    def _add(self, member_id: str, join: Join, joined: Joined) -> None:
        self._forget(member_id)  # as an id that was given out
        member = Member(member_id, join)
        self._has_grown = True
        self.members.add(member, join.protocol_type)
        member.wait_to_join(joined)
        self._renew(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance()

    def _join_again(self, join: Join, joined: Joined) -> None:
        try:
            member = self.members.check(join.member_id, join.group_instance_id)
        except KafkaError as error:
            joined(JoinAnswer(join.member_id, error=type(error)))
            return
        is_leader = member.member_id == self.members.leader_id
        is_settled = self.state is GroupState.COMPLETING_REBALANCE or (self.state is GroupState.STABLE and not is_leader)
        if is_settled and member.protocols == join.protocols:
            joined(self._joined(member))
            return
        member.update(join)
        member.wait_to_join(joined)
        self._rebalance()

    def _replace(self, before: Member, member: Member, join: Join, joined: Joined) -> None:
        """A static member came back as `member`."""
        leader_before = self.members.leader_id or ""
        before.answer_join(JoinAnswer(before.member_id, error=FencedInstanceId))
        before.answer_sync(SyncAnswer(error=FencedInstanceId))
        self._take_place(before, member)
        member.wait_to_join(joined)
        if self.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined()
        elif self.state is GroupState.COMPLETING_REBALANCE or self.members.select() != self.protocol_name:
            self._prepare()
        else:
            self._tell_again(before, member, join, leader_before)

    def _take_place(self, before: Member, member: Member) -> None:
        if before.session is not None:
            before.session.cancel()
        member.is_new = False
        member.assignment = before.assignment
        self.members.replace(before, member)
        if before.member_id in self._unsynced:
            self._unsynced.remove(before.member_id)
            self._unsynced.add(member.member_id)
        self._renew(member)

    def _tell_again(self, before: Member, member: Member, join: Join, leader_before: str) -> None:
        """The generation stays as it is, with another id in it. A leader must not assign anew: it is told so, or that another one leads."""
        try:
            self._persist(value_of(self))
        except KafkaError as error:
            self._take_place(member, before)
            member.answer_join(JoinAnswer(UNKNOWN_MEMBER_ID, self.generation_id, error=type(error)))
            return
        told = self._joined(member)
        if join.supports_skipping_assignment:
            member.answer_join(told._replace(skip_assignment=bool(told.members)))
        else:
            member.answer_join(told._replace(leader=leader_before, members=()))

    # SyncGroup

    def sync(self, sync: Sync, synced: Synced) -> None:
        """What the member shall read; the leader brings it for all."""
        try:
            member = self._check_sync(sync)
        except KafkaError as error:
            synced(SyncAnswer(error=type(error)))
            return
        self._has_synced(member.member_id)
        if self.state is GroupState.STABLE:
            synced(self._assigned(member))
            return
        member.wait_to_sync(synced)
        if member.member_id == self.members.leader_id:
            self._assign(dict(sync.assignments))

    def _check_sync(self, sync: Sync) -> Member:
        member = self._check_member(sync.member_id, sync.group_instance_id, sync.generation_id)
        if sync.protocol_type not in {None, self.members.protocol_type} or sync.protocol_name not in {None, self.protocol_name}:
            raise InconsistentGroupProtocol
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress
        return member

    def _assign(self, assignments: dict[str, bytes]) -> None:
        before = [(member, member.assignment) for member in self.members]
        for member in self.members:
            member.assignment = assignments.get(member.member_id, b"")
        try:
            self._persist(value_of(self))
        except KafkaError as error:
            for member, assignment in before:
                member.assignment = assignment
            self._give_up_sync(type(error))
            self._prepare()
            return
        self._move_to(GroupState.STABLE)
        for member in self.members:
            if member.answer_sync(self._assigned(member)):
                self._renew(member)

    def _assigned(self, member: Member) -> SyncAnswer:
        return SyncAnswer(member.assignment, self.members.protocol_type, self.protocol_name)

    # Heartbeat, LeaveGroup, OffsetCommit

    def classic_heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """The member is alive; RebalanceInProgress tells it to join again."""
        member = self._check_member(member_id, group_instance_id, generation_id)
        self._renew(member)
        if self.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress

    def leave(self, leaving: Sequence[Leave]) -> list[type[KafkaError] | None]:
        """Members go at once, with one rebalance for all of them; None for each that is gone now."""
        count = len(self.members)
        errors = [self._leave(each) for each in leaving]
        if len(self.members) < count:
            self._rebalance()
        else:
            self._complete_if_all_joined()  # an id that was given out may have been what was waited for
        return errors

    def _leave(self, leaving: Leave) -> type[KafkaError] | None:
        if leaving.member_id in self._pending:
            self._forget(leaving.member_id)
            return None
        try:
            if leaving.member_id == UNKNOWN_MEMBER_ID and (member := self.members.of_instance(leaving.group_instance_id)) is not None:
                self._forget(member.member_id)
            else:
                self._forget(self.members.check(leaving.member_id, leaving.group_instance_id).member_id)
        except KafkaError as error:
            return type(error)
        return None

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool, has_member_epoch: bool = True) -> CheckCommit:  # noqa: ARG002  every kind of group is asked so
        """Whether offsets may be committed, and by whom: KafkaError kinds of the table. One outside of a transaction renews the session."""
        self._check_offset_commit(membership, is_transactional=is_transactional)
        return may_commit_all

    def _check_offset_commit(self, membership: Membership, *, is_transactional: bool) -> None:
        generation_id, member_id, group_instance_id = membership
        if generation_id < 0 and self.state is GroupState.EMPTY:
            return
        if generation_id < 0 and member_id == UNKNOWN_MEMBER_ID and group_instance_id is None:
            if not is_transactional:
                raise UnknownMemberId
            return
        member = self._check_member(member_id, group_instance_id, generation_id)
        if is_transactional:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress
        self._renew(member)

    # What others want to know

    @property
    def protocol_type(self) -> str:
        """Of its members, or of the last ones that there were."""
        return self.members.protocol_type or SIMPLE_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and none are on their way."""
        return self.state is GroupState.EMPTY

    @property
    def do_offsets_expire(self) -> bool:
        """Only of consumers one can tell what they do not read; and only while they read."""
        return self.is_empty or (self.state is GroupState.STABLE and self.protocol_type == CONSUMER)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Everybody may ask, as in Apache Kafka."""

    def check_offset_delete(self) -> None:
        """NonEmptyGroup: it has members that are no consumers, so nobody knows what they read."""
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        """NonEmptyGroup."""
        if not self.is_empty:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """The end of the group, offsets apart."""
        return [group_tombstone(self.group_id)]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a consumer reads it: then its offsets stay. True where the subscriptions cannot be read, as in Apache Kafka."""
        if self.members.protocol_type != CONSUMER:
            return False
        subscriptions = [topics_of(member.metadata(self.protocol_name)) for member in self.members]
        return any(topics is None or topic in topics for topics in subscriptions)

    def _check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> Member:
        member = self.members.check(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise IllegalGeneration
        return member
