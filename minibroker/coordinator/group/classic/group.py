"""A classic group, whose members assign partitions among themselves: what each request does in each state.

                             Empty            PreparingRebalance    CompletingRebalance       Stable
  JoinGroup
    no member id (1)         -> Preparing     waits                 -> Preparing, waits       -> Preparing, waits
    its own id (2)           25               waits                 same protocols: the same  follower, same protocols: the same
                                                                    answer; else -> Preparing answer; else -> Preparing, waits
    static, without id (3)   -> Preparing     waits, in its place   -> Preparing, waits       same protocol: the same answer, stored;
                                                                                              else -> Preparing, waits
  SyncGroup (4)              25               27                    waits; of the leader:     its assignment
                                                                    stored -> Stable, all
                                                                    are answered
  Heartbeat (4)              25               27, renewed           renewed                   renewed
  LeaveGroup                 25               removed               removed -> Preparing      removed -> Preparing
  OffsetCommit, no id        committed        25                    25                        25
    of a member (4)          25               committed, renewed    27                        committed, renewed
  TxnOffsetCommit, no id     committed        committed             committed                 committed
    of a member (4)          25               committed             committed                 committed

  25 UNKNOWN_MEMBER_ID   27 REBALANCE_IN_PROGRESS   waits: answered with the next generation (JoinGroup) or its assignment (SyncGroup)
  (1) From JoinGroup 4 on the member first gets an id, with MEMBER_ID_REQUIRED, and joins with it, so that a lost answer leaves no member
      in the group (KIP-394). A rebalance also waits for such ids. Static members need no id to join.
  (2) An id that the coordinator assigned joins as in (1). An unknown id is 25.
  (3) From then on the member that had the instance before receives FENCED_INSTANCE_ID, also for a waiting request (KIP-345).
  (4) Checked first: 25 for an unknown id, FENCED_INSTANCE_ID for one that another member replaced, ILLEGAL_GENERATION for another
      generation, and INCONSISTENT_GROUP_PROTOCOL if SyncGroup 5 names another protocol.

A JoinGroup is first rejected with GROUP_MAX_SIZE_REACHED, or with INCONSISTENT_GROUP_PROTOCOL if no
protocol would be common to all members. Apache Kafka differs in four cases:
  - LeaveGroup of an id that has not joined yet starts a rebalance
  - a waiting request is not answered when the member sends it again (here: REBALANCE_IN_PROGRESS)
  - a rebalance keeps waiting for a member that a full group rejected
  - among protocols with equally many votes its hash table decides

Source: GroupMetadataManager of Apache Kafka 4.3.1; KIP-62, KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import uuid4

from minibroker.clock import Clock
from minibroker.coordinator.group.classic.consumer_protocol import CONSUMER, topics_of
from minibroker.coordinator.group.classic.members import SIMPLE_TYPE, ClassicMember, MemberTable, group_tombstone, names
from minibroker.coordinator.group.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    ClassicGroupLimits,
    ClassicGroupState,
    PersistGeneration,
    Rebalance,
    no_follower,
)
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, Join, JoinAnswer, Joined, Leave, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.kind import CheckCommit, GroupType, Membership, may_commit_all
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NonEmptyGroup,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from minibroker.schemas.internal.offset_records import GroupMetadataValue
from minibroker.storage.record_frame import CoordinatorRecord

#: the most letters of a client id or instance id in a member id, which must fit into a string of the answer; Kafka's clients allow as many
MAX_MEMBER_NAME_LETTERS: Final = 249


def new_member_id(join: Join) -> str:
    """Return a new member id.

    It starts with the instance id of a static member, or with the client id.
    """
    prefix = join.group_instance_id if join.group_instance_id is not None else join.client_id
    return f"{prefix[:MAX_MEMBER_NAME_LETTERS]}-{uuid4()}"


class ClassicGroup:
    """Serve the requests of one group.

    `joined` and `synced` are called once: before the call returns, or when the answer is known.
    """

    group_type = GroupType.CLASSIC

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        persist: PersistGeneration,
        limits: ClassicGroupLimits | None = None,
        stored: GroupMetadataValue | None = None,
        members: MemberTable | None = None,
        changed: Callable[[], None] = no_follower,
        must_rebalance: bool = False,
        draw_member_id: Callable[[Join], str] = new_member_id,
    ) -> None:
        """Create the state machine.

        `must_rebalance`: the members of a stored group must join again when it resumes.

        The other arguments are those of Rebalance.
        """
        self.group_id = group_id
        self._rebalance = Rebalance(
            group_id,
            clock=clock,
            persist=persist,
            limits=limits or ClassicGroupLimits(),
            stored=stored,
            members=members,
            changed=changed,
        )
        self._must_rebalance = must_rebalance
        self._draw_member_id = draw_member_id

    @property
    def state(self) -> ClassicGroupState:
        """The state of the group."""
        return self._rebalance.state

    @property
    def members(self) -> MemberTable:
        """The members of the group."""
        return self._rebalance.members

    @property
    def generation_id(self) -> int:
        """The generation; 0 before the first one."""
        return self._rebalance.generation_id

    @property
    def protocol_name(self) -> str | None:
        """The protocol of this generation."""
        return self._rebalance.protocol_name

    def resume(self) -> None:
        """Start the session time-outs of all members, after the log was read."""
        self._rebalance.resume(must_rebalance=self._must_rebalance)

    def unload(self, error: type[KafkaError] = NotCoordinator) -> None:
        """Cancel all timers, and answer waiting members with `error`."""
        self._rebalance.unload(error)

    # JoinGroup

    def join(self, join: Join, joined: Joined) -> None:
        """Serve JoinGroup: join the next generation, or repeat the answer of this one."""
        try:
            self._check_join(join)
            self._rebalance.store_if_new()
        except KafkaError as error:
            is_full = isinstance(error, GroupMaxSizeReached)
            joined(JoinAnswer(UNKNOWN_MEMBER_ID if is_full else join.member_id, error=type(error)))
            self._rebalance.complete_if_all_joined()  # the rebalance may have waited for this member
            return
        if join.member_id == UNKNOWN_MEMBER_ID:
            self._join_new(join, joined)
        elif join.member_id in self._rebalance.pending and join.group_instance_id is None:  # static members join without such an id
            self._add(join.member_id, join, joined)
        else:
            self._join_again(join, joined)

    def _check_join(self, join: Join) -> None:
        if not self._has_room(join.member_id):
            self._rebalance.forget(join.member_id)
            raise GroupMaxSizeReached
        if not self.members.supports(join.protocol_type, names(join.protocols)):
            raise InconsistentGroupProtocol

    def _has_room(self, member_id: str) -> bool:
        """Whether the group may have this member.

        During a rebalance only the members that have joined count.
        """
        if self.state is ClassicGroupState.EMPTY or len(self.members) < self._rebalance.limits.max_size:
            return True
        if self.state is not ClassicGroupState.PREPARING_REBALANCE:
            return member_id in self.members
        if member_id in self.members and self.members[member_id].joined is not None:
            return True
        return sum(member.joined is not None for member in self.members) < self._rebalance.limits.max_size

    def _join_new(self, join: Join, joined: Joined) -> None:
        member_id = self._draw_member_id(join)
        before = self.members.of_instance(join.group_instance_id)
        if before is not None:
            self._replace(before, ClassicMember(member_id, join), join, joined)
        elif join.group_instance_id is None and join.requires_known_member_id:
            if len(self._rebalance.pending) >= self._rebalance.limits.max_size:
                joined(JoinAnswer(UNKNOWN_MEMBER_ID, error=GroupMaxSizeReached))
                return
            self._rebalance.expect(member_id, join.session_timeout_ms)
            joined(JoinAnswer(member_id, error=MemberIdRequired))
        else:
            self._add(member_id, join, joined)

    def _add(self, member_id: str, join: Join, joined: Joined) -> None:
        self._rebalance.forget(member_id)
        member = ClassicMember(member_id, join)
        self._rebalance.add(member, join.protocol_type)
        member.wait_to_join(joined)
        self._rebalance.renew(member, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._rebalance.start_or_continue()

    def _join_again(self, join: Join, joined: Joined) -> None:
        try:
            member = self.members.check(join.member_id, join.group_instance_id)
        except KafkaError as error:
            joined(JoinAnswer(join.member_id, error=type(error)))
            return
        is_leader = member.member_id == self.members.leader_id
        is_settled = self.state is ClassicGroupState.COMPLETING_REBALANCE or (self.state is ClassicGroupState.STABLE and not is_leader)
        if is_settled and member.protocols == join.protocols:
            joined(self._rebalance.join_answer(member))
            return
        self.members.update(member, join)
        member.wait_to_join(joined)
        self._rebalance.start_or_continue()

    def _replace(self, before: ClassicMember, member: ClassicMember, join: Join, joined: Joined) -> None:
        """Let a static member join again under the id of `member`."""
        leader_before = self.members.leader_id or ""
        before.answer_join(JoinAnswer(before.member_id, error=FencedInstanceId))
        before.answer_sync(SyncAnswer(error=FencedInstanceId))
        self._rebalance.replace(before, member)
        member.wait_to_join(joined)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self._rebalance.complete_if_all_joined()
        elif self.state is ClassicGroupState.COMPLETING_REBALANCE or self.members.select() != self.protocol_name:
            self._rebalance.prepare()
        else:
            self._repeat_generation(before, member, join, leader_before)

    def _repeat_generation(self, before: ClassicMember, member: ClassicMember, join: Join, leader_before: str) -> None:
        """Answer with the present generation.

        A leader must not assign again: the answer skips the assignment, or names another leader.
        """
        try:
            self._rebalance.store()
        except KafkaError as error:
            self._rebalance.replace(member, before)
            member.answer_join(JoinAnswer(UNKNOWN_MEMBER_ID, self.generation_id, error=type(error)))
            return
        answer = self._rebalance.join_answer(member)
        if join.supports_skipping_assignment:
            member.answer_join(answer._replace(skip_assignment=bool(answer.members)))
        else:
            member.answer_join(answer._replace(leader=leader_before, members=()))

    # SyncGroup

    def sync(self, sync: Sync, synced: Synced) -> None:
        """Serve SyncGroup: answer with the assignment of a member.

        The leader sends the assignments of all members.
        """
        try:
            member = self._check_sync(sync)
        except KafkaError as error:
            synced(SyncAnswer(error=type(error)))
            return
        self._rebalance.note_sync(member.member_id)
        if self.state is ClassicGroupState.STABLE:
            synced(self._rebalance.sync_answer(member))
            return
        member.wait_to_sync(synced)
        if member.member_id == self.members.leader_id:
            self._rebalance.assign(dict(sync.assignments))

    def _check_sync(self, sync: Sync) -> ClassicMember:
        member = self._check_member(sync.member_id, sync.group_instance_id, sync.generation_id)
        if sync.protocol_type not in {None, self.members.protocol_type} or sync.protocol_name not in {None, self.protocol_name}:
            raise InconsistentGroupProtocol
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress
        return member

    # Heartbeat, LeaveGroup, OffsetCommit

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Renew the session of a member. RebalanceInProgress asks it to join again."""
        member = self._check_member(member_id, group_instance_id, generation_id)
        self._rebalance.renew(member)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress

    def leave(self, leaving: Sequence[Leave]) -> list[type[KafkaError] | None]:
        """Remove members with one rebalance for all of them.

        Return None for each that was removed, or its error.
        """
        count = len(self.members)
        errors = [self._leave(each) for each in leaving]
        if len(self.members) < count:
            self._rebalance.start_or_continue()
        else:
            self._rebalance.complete_if_all_joined()  # the rebalance may have waited for an id that had not joined yet
        return errors

    def _leave(self, leaving: Leave) -> type[KafkaError] | None:
        if leaving.member_id in self._rebalance.pending:
            self._rebalance.forget(leaving.member_id)
            return None
        try:
            if leaving.member_id == UNKNOWN_MEMBER_ID and (member := self.members.of_instance(leaving.group_instance_id)) is not None:
                self._rebalance.forget(member.member_id)
            else:
                self._rebalance.forget(self.members.check(leaving.member_id, leaving.group_instance_id).member_id)
        except KafkaError as error:
            return type(error)
        return None

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool, has_member_epoch: bool = True) -> CheckCommit:  # noqa: ARG002  the protocol of all kinds
        """Check whether a client may commit; see the table.

        A commit outside of a transaction renews the session.
        """
        self._check_offset_commit(membership, is_transactional=is_transactional)
        return may_commit_all

    def _check_offset_commit(self, membership: Membership, *, is_transactional: bool) -> None:
        generation_id, member_id, group_instance_id = membership
        if generation_id < 0 and self.state is ClassicGroupState.EMPTY:
            return
        if generation_id < 0 and member_id == UNKNOWN_MEMBER_ID and group_instance_id is None:
            if not is_transactional:
                raise UnknownMemberId
            return
        member = self._check_member(member_id, group_instance_id, generation_id)
        if is_transactional:
            return
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress
        self._rebalance.renew(member)

    # The rest of LiveGroup

    @property
    def protocol_type(self) -> str:
        """The protocol type of its members, or of its last members."""
        return self.members.protocol_type or SIMPLE_TYPE

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and no rebalance runs."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def do_offsets_expire(self) -> bool:
        """Whether offsets without subscribers expire.

        The broker knows subscriptions only of consumers, and only in the state Stable.
        """
        return self.is_empty or (self.state is ClassicGroupState.STABLE and self.protocol_type == CONSUMER)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every client, as Apache Kafka does."""

    def check_offset_delete(self) -> None:
        """Raise NonEmptyGroup if it has members that are not consumers: their subscriptions are not known."""
        if not self.is_empty and self.protocol_type != CONSUMER:
            raise NonEmptyGroup

    def check_delete(self) -> None:
        """Raise NonEmptyGroup unless it is empty."""
        if not self.is_empty:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstone of its record."""
        return [group_tombstone(self.group_id)]

    def is_subscribed(self, topic: str) -> bool:
        """Whether a consumer is subscribed to the topic.

        Also True if a subscription cannot be decoded, as in Apache Kafka.
        """
        if self.members.protocol_type != CONSUMER:
            return False
        subscriptions = [topics_of(member.metadata(self.protocol_name)) for member in self.members]
        return any(topics is None or topic in topics for topics in subscriptions)

    def _check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ClassicMember:
        member = self.members.check(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise IllegalGeneration
        return member
