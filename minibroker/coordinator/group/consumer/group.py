"""A consumer group of KIP-848: what its members ask for, and what time does to them.

    state          it is in it when                                            as ConsumerGroupDescribe spells it
    Empty          nobody is in it
    Assigning      its epoch is newer than that of the target assignment
    Reconciling    a member has not what it shall have
    Stable         all have what they shall have

    member epoch        of a member that is there                    of one that is not
    0   joins           told everything again; owns nothing          new: a new epoch of the group
        static (1)      UNRELEASED_INSTANCE_ID, but for one that     new
                        is away: takes its place, same epoch
    its own             alive; reconciled (2)                        UNKNOWN_MEMBER_ID
    the one before      the same, if it owns no more than it was     UNKNOWN_MEMBER_ID
                        given (its answer was lost); else 110
    older, newer        FENCED_MEMBER_EPOCH (110)                    UNKNOWN_MEMBER_ID
    -1  leaves          gone: a new epoch of the group               UNKNOWN_MEMBER_ID
    -2  static, leaves  away: keeps its partitions                   UNKNOWN_MEMBER_ID

  (1) A request with an instance id that another member has is FENCED_INSTANCE_ID, but for one that joins.
  (2) What changed in what it says of itself is stored; another subscription is a new epoch of the group.

    timer                       runs for                               when it is over
    session of a member         the session time-out of the group      it is gone, as if it left
    revocation of a member      its rebalance time-out                 it is gone: it did not give up what it must

Invariants
  - what members are told is stored before they are told; where that fails nothing has happened
  - no epoch goes back, but of a member that comes back as static
  - see image.py for owners, reconciliation.py for who is given what

Members that speak the classic protocol: mixed_group.py. A member of either protocol may come back by the other one, under its own id, or,
where it is static, in the place of whoever had the instance.

Where Apache Kafka differs: a static member does not get back into a full group there; expressions are resolved behind the request.

Source: GroupMetadataManager, ConsumerGroup of Apache Kafka 4.3.1; KIP-848, KIP-1043, KIP-1251.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from minibroker.clock import Clock
from minibroker.coordinator.group.consumer.assignors import ASSIGNORS, preferred
from minibroker.coordinator.group.consumer.members import GroupImage, Member, MemberState
from minibroker.coordinator.group.consumer.reconciliation import is_part_of
from minibroker.coordinator.group.consumer.records import group_tombstones
from minibroker.coordinator.group.consumer.requests import NOT_SAID, Heartbeat, HeartbeatAnswer, check_heartbeat
from minibroker.coordinator.group.consumer.step import Step
from minibroker.coordinator.group.kind import CheckCommit, GroupType, Persist, may_commit_all
from minibroker.coordinator.group.member_epochs import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    check_epoch,
    check_fetch,
    is_current,
    known_member,
    unknown_member,
    who_commits,
    who_fetches,
)
from minibroker.coordinator.group.member_timeouts import MemberTimeouts
from minibroker.coordinator.group.modern import without_epochs
from minibroker.coordinator.group.offsets import Membership
from minibroker.coordinator.group.topics import Topics
from minibroker.coordinator.record_frame import CoordinatorRecord
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
)

_INT_MAX: Final = 2**31 - 1


class GroupState(Enum):
    """As ConsumerGroupDescribe and ListGroups spell it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Limits(NamedTuple):
    """What the broker's configuration says of consumer groups."""

    max_size: int = _INT_MAX  #: group.consumer.max.size
    session_timeout_ms: int = 45_000  #: group.consumer.session.timeout.ms
    heartbeat_interval_ms: int = 5_000  #: group.consumer.heartbeat.interval.ms
    assignment_interval_ms: int = 1_000  #: group.consumer.assignment.interval.ms; 0: who joins is in a target assignment at once
    assignors: tuple[str, ...] = ASSIGNORS  #: group.consumer.assignors


def new_member_id() -> str:
    """An id that nobody had before, as Apache Kafka's ids look."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


class ConsumerGroup:
    """One group. `image` is what the log says of it, and for reading."""

    group_type = GroupType.CONSUMER
    protocol_type = "consumer"
    do_offsets_expire = True

    def __init__(
        self,
        group_id: str,
        *,
        clock: Clock,
        topics: Topics,
        persist: Persist,
        limits: Callable[[], Limits] = Limits,
        image: GroupImage,
        draw_member_id: Callable[[], str] = new_member_id,
    ) -> None:
        """`image` is what the group's records are replayed into, those that `persist` takes too; if there are any, `resume` must follow."""
        self.group_id = group_id
        self.image = image
        self._clock = clock
        self._topics = topics
        self._persist = persist
        self._limits = limits  #: at the moment
        self._draw_member_id = draw_member_id
        self._topics_version = -1  #: of the topics that the group's epoch is known to be right for
        self._asked_regexes: dict[str, int] = {}  #: those without a result; written by steps
        self._sessions = MemberTimeouts(group_id, clock, self._remove, "its session timed out")
        self._revocations = MemberTimeouts(group_id, clock, self._remove, "it did not give up its partitions in time")

    # Life

    def resume(self) -> None:
        """The log is read: members have a session time-out to be heard of again."""
        for member in self.image.members.values():
            self._renew(member)
            self._watch_revocation(member)

    def unload(self) -> None:
        """This broker coordinates the group no more."""
        for timeouts in self._timeouts():
            timeouts.clear()

    @property
    def state(self) -> GroupState:
        """By the first rule of the table that holds."""
        if not self.image.members:
            return GroupState.EMPTY
        if self.image.epoch > self.image.assignment_epoch:
            return GroupState.ASSIGNING
        if all(member.is_reconciled(self.image.assignment_epoch) for member in self.image.members.values()):
            return GroupState.STABLE
        return GroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether nobody is in it."""
        return not self.image.members

    @property
    def assignor(self) -> str:
        """Which its members want."""
        return preferred((member.server_assignor for member in self.image.members.values()), self._limits().assignors)

    # ConsumerGroupHeartbeat

    def heartbeat(self, asked: Heartbeat) -> HeartbeatAnswer:
        """Join, be alive, leave: KafkaError kinds of the table, of requests.py, and what storing fails with."""
        check_heartbeat(self.group_id, asked, self._limits().assignors)
        if asked.member_epoch < JOINS:
            return self._leave(asked)
        if not asked.member_id:
            asked = asked._replace(member_id=self._draw_member_id())
        step = self._step()
        before = self._find(asked, step)
        self._follow(step, _updated(before, asked))
        step.assign(self._limits().assignment_interval_ms, self._limits().assignors)
        member = step.reconcile(asked.member_id, asked.owned)
        self._commit(step)
        self._renew(member)
        self._watch_revocation(member, before)
        is_told = asked.member_epoch == JOINS or asked.is_full or without_epochs(before.assigned) != without_epochs(member.assigned)
        assignment = without_epochs(member.assigned) if is_told else None
        return HeartbeatAnswer(member.member_id, member.member_epoch, self._limits().heartbeat_interval_ms, assignment)

    def _find(self, asked: Heartbeat, step: Step) -> Member:
        """The member that asks, in the place of the one that it replaces; a blank one where it is new."""
        if asked.instance_id is not None:
            owner = self._of_instance(asked.instance_id)
            if asked.member_epoch == JOINS and owner is not None:
                return self._return(owner, asked, step)
            if asked.member_epoch != JOINS:
                self._check_instance(owner, asked)
        member = self.image.members.get(asked.member_id)
        if member is not None:
            check_epoch("consumer", member, asked.member_epoch, lambda: is_part_of(asked.owned, member.assigned))
            return member
        if asked.member_epoch != JOINS:
            raise unknown_member(self.group_id, asked.member_id)
        if len(self.image.members) >= self._limits().max_size:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {self._limits().max_size} members.")
        return Member(asked.member_id)

    def _return(self, owner: Member, asked: Heartbeat, step: Step) -> Member:
        if owner.classic is None and owner.member_epoch != LEAVES_FOR_A_WHILE:
            raise UnreleasedInstanceId(
                f"Static member {asked.member_id} with instance id {asked.instance_id} cannot join the group because the instance id is "
                f"owned by {owner.member_id} member."
            )
        other = self.image.members.get(asked.member_id)
        if other is not None and other is not owner:
            raise FencedInstanceId(f"Member {asked.member_id} has another instance id than {asked.instance_id}.")
        return step.replace(owner, asked.member_id)

    def _of_instance(self, instance_id: str | None) -> Member | None:
        member_id = self.image.instances.get(instance_id or "")
        return None if member_id is None else self.image.members[member_id]

    def _check_instance(self, owner: Member | None, asked: Heartbeat) -> None:
        if owner is None:
            raise UnknownMemberId(f"Instance id {asked.instance_id} is unknown.")
        if owner.member_id != asked.member_id:
            raise FencedInstanceId(
                f"Static member {asked.member_id} with instance id {asked.instance_id} was fenced by member {owner.member_id}."
            )

    def _leave(self, asked: Heartbeat) -> HeartbeatAnswer:
        if asked.instance_id is not None:
            self._check_instance(self._of_instance(asked.instance_id), asked)
        member = known_member(self.group_id, self.image.members, asked.member_id)
        if asked.member_epoch == LEAVES_FOR_A_WHILE:
            step = self._step()
            step.rest(member)
            self._store(step)
            self._revocations.cancel(member.member_id)
        else:
            self._remove(member.member_id)
        return HeartbeatAnswer(asked.member_id, asked.member_epoch)

    # Steps

    def _step(self) -> Step:
        return Step(self.group_id, self.image, self._topics, self._clock.now_ms(), self._asked_regexes)

    def _follow(self, step: Step, member: Member) -> None:
        """The member says this of itself now, and topics are as they are now: the group may have a new epoch."""
        has_changed = step.subscribe(member)
        has_changed = step.resolve_regexes() or (has_changed and not self._waits_for_regex(step, member))
        if has_changed or self._topics_version != self._topics.version:
            step.follow_subscriptions(has_changed=has_changed)

    def _waits_for_regex(self, step: Step, member: Member) -> bool:
        """Whether all that is new of its subscription is an expression without a result: the group's epoch grows with the result."""
        if not member.topic_regex or member.topic_regex in step.image.regexes:
            return False
        before = self.image.members.get(member.member_id)
        return member.topic_names == (before.topic_names if before is not None else ())

    def _commit(self, step: Step) -> None:
        """Store a step that followed the topics. Who is not there any more has no time-outs."""
        topics_version = self._topics.version
        self._store(step)
        self._topics_version = topics_version
        for member_id in self._sessions.member_ids - self.image.members.keys():
            self._cancel_all(member_id)

    def _store(self, step: Step) -> None:
        if step.records:
            self._persist(step.records)

    def _remove(self, *member_ids: str) -> None:
        step = self._step()
        step.remove(*member_ids)
        self._store(step)
        for member_id in member_ids:
            self._cancel_all(member_id)

    # Time-outs

    def _timeouts(self) -> tuple[MemberTimeouts, ...]:
        """All that there are."""
        return self._sessions, self._revocations

    def _session_timeout_ms(self, _: Member) -> int:
        return self._limits().session_timeout_ms

    def _renew(self, member: Member) -> None:
        self._sessions.arm(member.member_id, self._session_timeout_ms(member))

    def _watch_revocation(self, member: Member, before: Member | None = None) -> None:
        """Its time begins anew with each thing that it must give up."""
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            self._revocations.cancel(member.member_id)
        elif before is None or before != before.with_progress_of(member):
            self._revocations.arm(member.member_id, member.rebalance_timeout_ms)

    def _cancel_all(self, member_id: str) -> None:
        for timeouts in self._timeouts():
            timeouts.cancel(member_id)

    # What others want to know

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool = False, has_member_epoch: bool = True) -> CheckCommit:
        """Who may commit offsets: UnknownMemberId, StaleMemberEpoch; and then of which partitions.

        Of a member that speaks the classic protocol IllegalGeneration is what StaleMemberEpoch is of others.

        A member may commit with an older epoch what has been its own since then (KIP-1251). UnsupportedVersion: a member that joined by
        the protocol of KIP-848 cannot commit by a version that does not know its epochs.
        """
        member = who_commits(self.group_id, self.image.members, membership, is_transactional=is_transactional)
        if member is None:
            return may_commit_all
        if not has_member_epoch and not is_transactional and member.classic is None:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members using the modern group protocol")
        member_epoch = membership.generation_id
        return may_commit_all if is_current(member, member_epoch, _stale(member)) else partial(_check_since, member, member_epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether a member may ask for offsets: UnknownMemberId, StaleMemberEpoch. Who is no member may."""
        member = who_fetches(self.group_id, self.image.members, member_id, member_epoch)
        if member is not None:
            check_fetch(member, member_epoch, _stale(member))

    def check_offset_delete(self) -> None:
        """At any time: what is subscribed to stays."""

    def check_delete(self) -> None:
        """NonEmptyGroup."""
        if not self.is_empty:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """The end of the group, offsets apart."""
        return group_tombstones(self.group_id)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member reads it: then its offsets stay."""
        return any(topic in self.image.topic_names_of(member) for member in self.image.members.values())


def _stale(member: Member) -> type[KafkaError]:
    """What an epoch is that is not the member's."""
    return StaleMemberEpoch if member.classic is None else IllegalGeneration


def _check_since(member: Member, member_epoch: int, topic_id: UUID, partition: int) -> KafkaError | None:
    """None where the partition is the member's at least since that epoch, be it that it must give it up."""
    epochs = [
        found for each in (member.assigned, member.pending_revocation) if (found := each.get(topic_id, {}).get(partition)) is not None
    ]
    if not epochs:
        return _stale(member)("The partition is not assigned or pending revocation for member.")
    if member_epoch < epochs[0]:
        return _stale(member)(f"Received member epoch {member_epoch} is older than assignment epoch {epochs[0]}.")
    return None


def _updated(before: Member, asked: Heartbeat) -> Member:
    """The member with what it says of itself now."""
    is_new_timeout = asked.rebalance_timeout_ms != NOT_SAID
    return before._replace(
        instance_id=before.instance_id if asked.instance_id is None else asked.instance_id,
        rack_id=before.rack_id if asked.rack_id is None else asked.rack_id,
        client_id=asked.client_id,
        client_host=asked.client_host,
        topic_names=before.topic_names if asked.topic_names is None else tuple(sorted(set(asked.topic_names))),
        topic_regex=before.topic_regex if asked.topic_regex is None else asked.topic_regex,
        rebalance_timeout_ms=asked.rebalance_timeout_ms if is_new_timeout else before.rebalance_timeout_ms,
        server_assignor=before.server_assignor if asked.server_assignor is None else asked.server_assignor,
        classic=None,
    )
