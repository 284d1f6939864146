"""Members of a consumer group that use the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The coordinator assigns partitions to these members as well. There is no leader, and no request
waits. JoinGroup has the partitions that a member owns, like a heartbeat of other members
(group.py). SyncGroup returns the assignment. The client knows the member epoch as the generation.

    of a classic member         its epoch is that of     its epoch is older     it must give up      all partitions that
                                the target assignment                           partitions           it waits for are free
    JoinGroup                   returns its epoch; reconciles it with the partitions that it owns (reconciliation.py)
    SyncGroup (1)               its assignment           27                     its assignment       its assignment
    Heartbeat (1)               alive (3)                27                     27                   27
    LeaveGroup (2)              removed: a new epoch of the group

  27 REBALANCE_IN_PROGRESS: it must join again, within its rebalance time-out
  (1) Checked first: UNKNOWN_MEMBER_ID for an unknown member or one that does not use the classic
      protocol, FENCED_INSTANCE_ID, ILLEGAL_GENERATION for another epoch,
      INCONSISTENT_GROUP_PROTOCOL if SyncGroup names another protocol than the first one of the
      member.
  (2) LeaveGroup can remove members of both protocols.
  (3) 27 if only classic members remain that may not be downgraded, and partitions must be assigned
      again: no other request would do it. (Apache Kafka does not assign them.)

JoinGroup is rejected with GROUP_MAX_SIZE_REACHED if the group is full. It is rejected with
INCONSISTENT_GROUP_PROTOCOL if the client is not a consumer, if the member has no protocol in common
with all classic members (which may have to continue alone), or if migration is disabled. A member
with an unknown id joins as a new one. A static member takes the place of the member that has its
instance id, whatever protocol that member uses.

If a classic member replaces the last member of the other protocol, the group is downgraded
(changes.py).

Source: GroupMetadataManager.classicGroupJoinToConsumerGroup and its neighbors in Apache Kafka
4.3.1; KIP-848.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minibroker.coordinator.group.classic.consumer_protocol import CONSUMER, partitions_of, read_subscription, write_assignment
from minibroker.coordinator.group.classic.requests import UNKNOWN_MEMBER_ID, Join, JoinAnswer, Joined, Leave, Sync, SyncAnswer, Synced
from minibroker.coordinator.group.consumer.changes import ConsumerGroupStep, GroupChanges
from minibroker.coordinator.group.consumer.members import ConsumerMember, MemberState
from minibroker.coordinator.group.consumer.migration import downgraded, metadata_of, protocols_of
from minibroker.coordinator.group.modern import without_epochs
from minibroker.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
    WireError,
)
from minibroker.schemas.internal.consumer_protocol import ConsumerProtocolSubscription


class ClassicMembers:
    """Serve the requests of the classic members of one group."""

    def __init__(self, changes: GroupChanges, draw_member_id: Callable[[], str]) -> None:
        self._changes = changes
        self._image = changes.image
        self._topics = changes.topics
        self._draw_member_id = draw_member_id

    # JoinGroup

    def join(self, join: Join, joined: Joined) -> None:
        """Serve JoinGroup: add a member, or reconcile it with the partitions that it owns.

        Answer immediately.
        """
        try:
            joined(self._join(join))
        except KafkaError as error:
            joined(JoinAnswer(UNKNOWN_MEMBER_ID, error=type(error)))

    def _join(self, join: Join) -> JoinAnswer:
        member_id = join.member_id or self._draw_member_id()
        self._check_join(join)
        if join.member_id == UNKNOWN_MEMBER_ID and join.group_instance_id is None and join.requires_known_member_id:
            return JoinAnswer(member_id, error=MemberIdRequired)
        subscription = _subscription(join)
        owned = partitions_of(subscription.owned_partitions, self._topics)
        changes = self._changes
        step = changes.step()
        owner = changes.static_member(join.group_instance_id)
        before = self._find_classic(join, member_id, owner, step)
        changes.follow(step, _updated(before, join, subscription))
        if owner is not None and changes.may_downgrade({owner.member_id}, replaced=owner):
            return self._hand_over(step, join, owner, member_id)
        changes.assign(step)
        member = step.reconcile(member_id, owned)
        changes.commit(step)
        changes.revocations.cancel(member_id)
        changes.joinings.cancel(member_id)
        changes.renew(member)
        changes.syncings.arm(member_id, join.rebalance_timeout_ms)
        return _join_answer(member)

    def _check_join(self, join: Join) -> None:
        if self._changes.migration().policy == "disabled":
            raise InconsistentGroupProtocol
        if len(self._image.members) >= self._changes.limits().max_size and join.member_id not in self._image.members:
            raise GroupMaxSizeReached
        if join.protocol_type != CONSUMER or not self._supports({protocol.name for protocol in join.protocols}):
            raise InconsistentGroupProtocol

    def _supports(self, names: set[str]) -> bool:
        """Whether all classic members would have a protocol in common."""
        known = [{protocol.name for protocol in protocols_of(member)} for member in self._classic_members()]
        return bool(names.intersection(*known))

    def _classic_members(self) -> list[ConsumerMember]:
        return [member for member in self._image.members.values() if member.classic is not None]

    def _find_classic(self, join: Join, member_id: str, owner: ConsumerMember | None, step: ConsumerGroupStep) -> ConsumerMember:
        """Return the member that joins, in the place of the one that it replaces; a blank one if it is new."""
        if join.group_instance_id is None:
            return self._image.members.get(member_id, ConsumerMember(member_id))
        if join.member_id == UNKNOWN_MEMBER_ID:
            return ConsumerMember(member_id) if owner is None else step.replace(owner, member_id)
        return self._check_owner(owner, join.member_id)

    def _check_owner(self, owner: ConsumerMember | None, member_id: str) -> ConsumerMember:
        if owner is None:
            raise UnknownMemberId
        if owner.member_id != member_id:
            raise FencedInstanceId
        return owner

    # SyncGroup, Heartbeat, LeaveGroup

    def sync(self, sync: Sync, synced: Synced) -> None:
        """Serve SyncGroup: answer immediately with the assignment."""
        try:
            member = self._find_of_generation(sync.member_id, sync.group_instance_id, sync.generation_id)
            protocol = protocols_of(member)[0]
            if sync.protocol_type not in {None, CONSUMER} or sync.protocol_name not in {None, protocol.name}:
                raise InconsistentGroupProtocol
            if self._image.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._require_join(member)
        except KafkaError as error:
            synced(SyncAnswer(error=type(error)))
            return
        self._changes.syncings.cancel(member.member_id)
        self._changes.renew(member)
        assignment = write_assignment(without_epochs(member.assigned), protocol.metadata, member.topic_names, self._topics)
        synced(SyncAnswer(assignment, sync.protocol_type, sync.protocol_name))

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int) -> None:
        """Renew the session of a classic member. RebalanceInProgress asks it to join again."""
        member = self._find_of_generation(member_id, group_instance_id, generation_id)
        self._changes.renew(member)
        is_free = member.state is MemberState.UNRELEASED_PARTITIONS and not self._must_wait(member)
        is_older = member.member_epoch < self._image.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
        if is_older or is_free or self._needs_new_target():
            self._require_join(member)

    def _needs_new_target(self) -> bool:
        """Whether a new target assignment is due that only a JoinGroup can create, because all members are classic."""
        if any(member.classic is None for member in self._image.members.values()):
            return False
        step = self._changes.step()
        step.follow_subscriptions(has_changed=False)
        return step.image.epoch > step.image.assignment_epoch

    def _require_join(self, member: ConsumerMember) -> None:
        if member.member_id not in self._changes.joinings.member_ids:
            self._changes.joinings.arm(member.member_id, member.rebalance_timeout_ms)
        raise RebalanceInProgress

    def _must_wait(self, member: ConsumerMember) -> bool:
        """Whether another member has not given up partitions of this member's target."""
        target = self._image.targets.get(member.member_id, {})
        return any(
            partition not in member.assigned.get(topic_id, {}) and (topic_id, partition) in self._image.owners
            for topic_id, partitions in target.items()
            for partition in partitions
        )

    def _find_of_generation(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ConsumerMember:
        if group_instance_id is not None:
            self._check_owner(self._changes.static_member(group_instance_id), member_id)
        member = self._image.members.get(member_id)
        if member is None or member.classic is None:
            raise UnknownMemberId
        if generation_id != member.member_epoch:
            raise IllegalGeneration
        return member

    def leave(self, leaving: Sequence[Leave]) -> list[type[KafkaError] | None]:
        """Remove members with one new epoch for all of them.

        Return None or an error for each; KafkaError.
        """
        removed: dict[str, None] = {}
        errors: list[type[KafkaError] | None] = []
        for each in leaving:
            try:
                removed[self._find_leaving(each)] = None
            except KafkaError as error:
                errors.append(type(error))
            else:
                errors.append(None)
        if removed:
            self._changes.remove(*removed)
        return errors

    def _find_leaving(self, leaving: Leave) -> str:
        if leaving.group_instance_id is None:
            if leaving.member_id not in self._image.members:
                raise UnknownMemberId
            return leaving.member_id
        owner = self._changes.static_member(leaving.group_instance_id)
        if owner is not None and leaving.member_id == UNKNOWN_MEMBER_ID:
            return owner.member_id
        return self._check_owner(owner, leaving.member_id).member_id

    # Downgrade

    def _hand_over(self, step: ConsumerGroupStep, join: Join, owner: ConsumerMember, member_id: str) -> JoinAnswer:
        """Downgrade because a classic member replaces the last other member.

        If nothing else changed, no member needs to join again.
        """
        epoch = self._image.epoch
        is_stale = self._image.assignment_epoch < step.image.epoch
        if not is_stale:
            subscription = _subscription(join)
            step.reconcile(member_id, partitions_of(subscription.owned_partitions, self._topics))
        members = [step.image.members[member_id if each == owner.member_id else each] for each in self._image.members]
        is_unsettled = is_stale or not all(member.is_reconciled(step.image.assignment_epoch) for member in members)
        successor = downgraded(members, step.image, self._topics, must_rebalance=is_unsettled)
        answer = _join_answer(step.image.members[member_id])
        self._changes.downgrade(step, successor._replace(generation_id=epoch))
        return answer


def _subscription(join: Join) -> ConsumerProtocolSubscription:
    """Decode the subscription of a member; UnknownServerError if it is invalid, as in Apache Kafka."""
    try:
        return read_subscription(join.protocols[0].metadata)
    except WireError as error:
        raise UnknownServerError from error


def _updated(before: ConsumerMember, join: Join, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    """Return the member with the fields of this JoinGroup.

    Classic members resolve expressions themselves.
    """
    return before._replace(
        instance_id=before.instance_id if join.group_instance_id is None else join.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex="",
        rebalance_timeout_ms=before.rebalance_timeout_ms if join.rebalance_timeout_ms < 0 else join.rebalance_timeout_ms,
        classic=metadata_of(join.session_timeout_ms, join.protocols),
    )


def _join_answer(member: ConsumerMember) -> JoinAnswer:
    return JoinAnswer(member.member_id, member.member_epoch, CONSUMER, protocols_of(member)[0].name)
