"""A consumer group (KIP-848): what each heartbeat does, and the states of the group.

    state          condition (the first one that holds)
    Empty          it has no members
    Assigning      its epoch is newer than that of the target assignment
    Reconciling    a member does not have its target assignment
    Stable         all members have their target assignment

    member epoch        of a known member                            of an unknown member
    0   joins           full answer; owns no partitions              new: a new epoch of the group
        static (1)      UNRELEASED_INSTANCE_ID, except one that      new
                        is away: takes its place, same epoch
    its own             alive; reconciled (2)                        UNKNOWN_MEMBER_ID
    the one before      the same, if it owns no more than was        UNKNOWN_MEMBER_ID
                        assigned (the answer was lost); else 110
    older, newer        FENCED_MEMBER_EPOCH (110)                    UNKNOWN_MEMBER_ID
    -1  leaves          removed: a new epoch of the group            UNKNOWN_MEMBER_ID
    -2  static, leaves  away: keeps its partitions                   UNKNOWN_MEMBER_ID

  (1) A request with the instance id of another member is FENCED_INSTANCE_ID, except one that joins.
  (2) Changed fields of the member are stored. A changed subscription starts a new epoch of the
      group.

Invariants
  - the records of an answer are stored before the answer is sent; if storing fails, nothing changes
  - no epoch decreases, except that of a static member that joins again
  - see members.py for owners, and reconciliation.py for which member gets which partitions

A member may change between this protocol and the classic one (classic_members.py): under its own
id, or if it is static, in the place of the member that has its instance id.

Apache Kafka differs in two cases. There a static member does not get back into a full group, and
expressions are resolved after the request.

Source: GroupMetadataManager, ConsumerGroup of Apache Kafka 4.3.1; KIP-848, KIP-1043, KIP-1251.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from minibroker.clock import Clock
from minibroker.coordinator.group.consumer.assignors import preferred
from minibroker.coordinator.group.consumer.changes import ConsumerGroupStep, GroupChanges
from minibroker.coordinator.group.consumer.classic_members import ClassicMembers
from minibroker.coordinator.group.consumer.members import ConsumerGroupImage, ConsumerMember, group_tombstones
from minibroker.coordinator.group.consumer.migration import ClassicSuccessor, Migration
from minibroker.coordinator.group.consumer.reconciliation import is_part_of
from minibroker.coordinator.group.consumer.requests import (
    NOT_SET,
    ConsumerGroupLimits,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    check_heartbeat,
)
from minibroker.coordinator.group.kind import CheckCommit, GroupType, Membership, Persist, may_commit_all
from minibroker.coordinator.group.modern import (
    JOINS,
    LEAVES_FOR_A_WHILE,
    check_epoch,
    check_fetch,
    committing_member,
    fetching_member,
    is_current,
    known_member,
    unknown_member,
    without_epochs,
)
from minibroker.coordinator.group.topics import Topics
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    KafkaError,
    NonEmptyGroup,
    NotCoordinator,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedVersion,
)
from minibroker.storage.record_frame import CoordinatorRecord

_INT_MAX: Final = 2**31 - 1


class ConsumerGroupState(Enum):
    """The state of a consumer group, as ConsumerGroupDescribe and ListGroups spell it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


def new_member_id() -> str:
    """Return a new member id, in the format of Apache Kafka."""
    return urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()


class ConsumerGroup:
    """One group.

    `image` is its state in the log, for reading. `classic_members` serves the requests of the
    classic protocol.
    """

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
        image: ConsumerGroupImage,
        limits: Callable[[], ConsumerGroupLimits] = ConsumerGroupLimits,
        draw_member_id: Callable[[], str] = new_member_id,
        migration: Callable[[], Migration] = Migration,
        on_downgraded: Callable[[ClassicSuccessor], None] = lambda _: None,
    ) -> None:
        """Create the state machine. If `image` has members, `resume` must follow.

        `persist` replays what it stores into `image`. `limits` and `migration` return the present
        configs. `on_downgraded` is called once, when a classic group has taken the place of this
        one.
        """
        self.group_id = group_id
        self.image = image
        self._limits = limits
        self._draw_member_id = draw_member_id
        self._changes = GroupChanges(
            group_id,
            clock=clock,
            topics=topics,
            persist=persist,
            limits=limits,
            image=image,
            migration=migration,
            on_downgraded=on_downgraded,
        )
        self.classic_members = ClassicMembers(self._changes, draw_member_id)

    # Life

    def resume(self) -> None:
        """Start the session time-outs of all members, after the log was read."""
        self._changes.resume()

    def unload(self, _error: type[KafkaError] = NotCoordinator, /) -> None:
        """Cancel all time-outs. No request waits."""
        self._changes.unload()

    @property
    def state(self) -> ConsumerGroupState:
        """The state, by the first row of the table that holds."""
        if not self.image.members:
            return ConsumerGroupState.EMPTY
        if self.image.epoch > self.image.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled(self.image.assignment_epoch) for member in self.image.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return not self.image.members

    @property
    def assignor(self) -> str:
        """The assignor that its members prefer."""
        return preferred((member.server_assignor for member in self.image.members.values()), self._limits().assignors)

    # ConsumerGroupHeartbeat

    def heartbeat(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        """Serve a heartbeat: join, stay alive, or leave.

        Raises the errors of the table and of requests.py, or KafkaError of the log.
        """
        check_heartbeat(self.group_id, request, self._limits().assignors)
        if request.member_epoch < JOINS:
            return self._leave(request)
        if not request.member_id:
            request = request._replace(member_id=self._draw_member_id())
        changes = self._changes
        step = changes.step()
        before = self._find(request, step)
        changes.follow(step, _updated(before, request))
        changes.assign(step)
        member = step.reconcile(request.member_id, request.owned)
        changes.commit(step)
        changes.renew(member)
        changes.watch_revocation(member, before)
        changes.joinings.cancel(member.member_id)  # it may have used the classic protocol before
        changes.syncings.cancel(member.member_id)
        has_news = request.member_epoch == JOINS or request.is_full or without_epochs(before.assigned) != without_epochs(member.assigned)
        assignment = without_epochs(member.assigned) if has_news else None
        return ConsumerHeartbeatAnswer(member.member_id, member.member_epoch, self._limits().heartbeat_interval_ms, assignment)

    def _find(self, request: ConsumerHeartbeat, step: ConsumerGroupStep) -> ConsumerMember:
        """Return the member that sent a heartbeat, in the place of the one that it replaces; a blank one if it is new."""
        if request.instance_id is not None:
            owner = self._changes.static_member(request.instance_id)
            if request.member_epoch == JOINS and owner is not None:
                return self._return(owner, request, step)
            if request.member_epoch != JOINS:
                self._check_instance(owner, request)
        member = self.image.members.get(request.member_id)
        if member is not None:
            check_epoch("consumer", member, request.member_epoch, lambda: is_part_of(request.owned, member.assigned))
            return member
        if request.member_epoch != JOINS:
            raise unknown_member(self.group_id, request.member_id)
        if len(self.image.members) >= self._limits().max_size:
            raise GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {self._limits().max_size} members.")
        return ConsumerMember(request.member_id)

    def _return(self, owner: ConsumerMember, request: ConsumerHeartbeat, step: ConsumerGroupStep) -> ConsumerMember:
        if owner.classic is None and owner.member_epoch != LEAVES_FOR_A_WHILE:
            raise UnreleasedInstanceId(
                f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group because the instance id "
                f"is owned by {owner.member_id} member."
            )
        other = self.image.members.get(request.member_id)
        if other is not None and other is not owner:
            raise FencedInstanceId(f"Member {request.member_id} has another instance id than {request.instance_id}.")
        return step.replace(owner, request.member_id)

    def _check_instance(self, owner: ConsumerMember | None, request: ConsumerHeartbeat) -> None:
        if owner is None:
            raise UnknownMemberId(f"Instance id {request.instance_id} is unknown.")
        if owner.member_id != request.member_id:
            raise FencedInstanceId(
                f"Static member {request.member_id} with instance id {request.instance_id} was fenced by member {owner.member_id}."
            )

    def _leave(self, request: ConsumerHeartbeat) -> ConsumerHeartbeatAnswer:
        if request.instance_id is not None:
            self._check_instance(self._changes.static_member(request.instance_id), request)
        member = known_member(self.group_id, self.image.members, request.member_id)
        if request.member_epoch == LEAVES_FOR_A_WHILE:
            step = self._changes.step()
            step.leave_for_a_while(member)
            self._changes.store(step)
            self._changes.revocations.cancel(member.member_id)
        else:
            self._changes.remove(member.member_id)
        return ConsumerHeartbeatAnswer(request.member_id, request.member_epoch)

    # The rest of LiveGroup

    def check_offset_commit(self, membership: Membership, *, is_transactional: bool = False, has_member_epoch: bool = True) -> CheckCommit:
        """Check whether a client may commit, and return the check of each partition.

        A member may commit with an older epoch for partitions that it has had since that epoch
        (KIP-1251).

        Raises:
            UnknownMemberId: The client is not a member.
            StaleMemberEpoch, IllegalGeneration: It has another epoch; the latter for classic members.
            UnsupportedVersion: The member joined by KIP-848, and this version of the request has no member epochs.
        """
        member = committing_member(self.group_id, self.image.members, membership, is_transactional=is_transactional)
        if member is None:
            return may_commit_all
        if not has_member_epoch and not is_transactional and member.classic is None:
            raise UnsupportedVersion("OffsetCommit version 9 or above must be used by members using the modern group protocol")
        member_epoch = membership.generation_id
        return may_commit_all if is_current(member, member_epoch, _stale(member)) else partial(_check_since, member, member_epoch)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check whether a client may fetch offsets: UnknownMemberId, StaleMemberEpoch.

        Clients that are not members may.
        """
        member = fetching_member(self.group_id, self.image.members, member_id, member_epoch)
        if member is not None:
            check_fetch(member, member_epoch, _stale(member))

    def check_offset_delete(self) -> None:
        """Always allow it: offsets of subscribed topics stay."""

    def check_delete(self) -> None:
        """Raise NonEmptyGroup unless it is empty."""
        if not self.is_empty:
            raise NonEmptyGroup

    def tombstones(self) -> list[CoordinatorRecord]:
        """Return the tombstones of its records, without those of its offsets."""
        return group_tombstones(self.group_id)

    def is_subscribed(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        return any(topic in self.image.topic_names_of(member) for member in self.image.members.values())


def _stale(member: ConsumerMember) -> type[KafkaError]:
    """Return the error for an epoch that is not the member's."""
    return StaleMemberEpoch if member.classic is None else IllegalGeneration


def _check_since(member: ConsumerMember, member_epoch: int, topic_id: UUID, partition: int) -> KafkaError | None:
    """Return None if the member has had the partition since that epoch, even if it must now give it up."""
    epochs = [
        found for each in (member.assigned, member.pending_revocation) if (found := each.get(topic_id, {}).get(partition)) is not None
    ]
    if not epochs:
        return _stale(member)("The partition is not assigned or pending revocation for member.")
    if member_epoch < epochs[0]:
        return _stale(member)(f"Received member epoch {member_epoch} is older than assignment epoch {epochs[0]}.")
    return None


def _updated(before: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member with the fields of this heartbeat."""
    is_new_timeout = request.rebalance_timeout_ms != NOT_SET
    return before._replace(
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=before.topic_names if request.topic_names is None else tuple(sorted(set(request.topic_names))),
        topic_regex=before.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=request.rebalance_timeout_ms if is_new_timeout else before.rebalance_timeout_ms,
        server_assignor=before.server_assignor if request.server_assignor is None else request.server_assignor,
        classic=None,
    )
