"""Reconciliation: how a member gets from its present to its target assignment.

It first gives up partitions, then gets free ones.

    state                   the member has                        its heartbeat                                  next state
    STABLE                  its target assignment                 its epoch is that of the target                STABLE
                                                                  a newer target, and it owns too much           UNREVOKED_PARTITIONS
                                                                  a newer target, others own some of it          UNRELEASED_PARTITIONS
                                                                  a newer target, all of it free or its own      STABLE
    UNREVOKED_PARTITIONS    what it may keep, in its old epoch    still owns some, or does not list them         UNREVOKED_PARTITIONS
                                                                  gave up: as from STABLE with a newer target
    UNRELEASED_PARTITIONS   the free part of its target           as from STABLE with a newer target
    UNKNOWN                 (from the log of a newer Kafka)       it owns nothing: as from STABLE                otherwise
                                                                  fenced: FENCED_MEMBER_EPOCH

In every state, the next heartbeat of a member asks it to give up topics that it is no longer
subscribed to.

Invariants
  - a member gets a partition only if no member has it or must still give it up
  - a member reaches the epoch of the target when it has given up all partitions that it must

Source: CurrentAssignmentBuilder of Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple
from uuid import UUID

from minibroker.coordinator.group.consumer.members import ConsumerMember, MemberState
from minibroker.coordinator.group.modern import NO_EPOCHS, NOTHING, Assignment, Epochs
from minibroker.errors import FencedMemberEpoch

Owners = Mapping[tuple[UUID, int], str]  #: member ids, of partitions that a member has or must give up


class Goal(NamedTuple):
    """The target of a member, and the owners of partitions in it."""

    epoch: int  #: of the target assignment
    target: Assignment
    subscribed: AbstractSet[UUID]  #: topics that it may have
    owners: Owners


def reconcile(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    """Return the member after a heartbeat.

    `owned` are the partitions that it owns; None if the heartbeat does not list them.
    """
    if member.state is MemberState.STABLE and member.member_epoch == goal.epoch:
        return _keep_to_subscription(member, goal, owned)
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation):
        return _keep_to_subscription(member, goal, owned)
    if member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise FencedMemberEpoch("The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
    return _advance(member, goal, owned)


def _owns_any(owned: Assignment | None, partitions: Epochs) -> bool:
    """Whether the member may own one of these partitions."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(indexes) for topic_id, indexes in partitions.items())


def _keep_to_subscription(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    """Revoke topics that it is no longer subscribed to; otherwise return it unchanged."""
    if member.assigned.keys() <= goal.subscribed:
        return member
    kept = {topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id in goal.subscribed}
    revoked = {topic_id: dict(epochs) for topic_id, epochs in member.pending_revocation.items()}
    for topic_id in member.assigned.keys() - goal.subscribed:
        revoked[topic_id] = {**revoked.get(topic_id, {}), **member.assigned[topic_id]}
    if _owns_any(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoked)
    return _moved(member, member.state, member.member_epoch, kept, member.pending_revocation)


def _advance(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    """Move the member towards its target as far as possible."""
    kept: dict[UUID, Mapping[int, int]] = {}
    revoked: dict[UUID, Mapping[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        target_partitions = goal.target.get(topic_id, frozenset()) if topic_id in goal.subscribed else frozenset()
        if stays := {partition: epoch for partition, epoch in epochs.items() if partition in target_partitions}:
            kept[topic_id] = stays
        if goes := {partition: epoch for partition, epoch in epochs.items() if partition not in target_partitions}:
            revoked[topic_id] = goes
    if revoked and _owns_any(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, kept, revoked)
    must_wait = False
    for topic_id in goal.target.keys() & goal.subscribed:
        missing = goal.target[topic_id] - kept.get(topic_id, {}).keys()
        free = {partition for partition in missing if goal.owners.get((topic_id, partition), member.member_id) == member.member_id}
        must_wait = must_wait or len(free) < len(missing)
        if free:
            kept[topic_id] = {**kept.get(topic_id, {}), **dict.fromkeys(sorted(free), goal.epoch)}
    state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
    return _moved(member, state, goal.epoch, kept, NO_EPOCHS)


def _moved(member: ConsumerMember, state: MemberState, epoch: int, assigned: Epochs, revoked: Epochs) -> ConsumerMember:
    moved = member._replace(state=state, assigned=assigned, pending_revocation=revoked)
    if moved == member and epoch == member.member_epoch:
        return member
    return moved._replace(member_epoch=epoch, previous_member_epoch=member.member_epoch)


def is_part_of(owned: Assignment | None, assigned: Epochs) -> bool:
    """Whether a member owns only assigned partitions; False if the heartbeat does not list them."""
    if owned is None:
        return False
    return all(partitions <= assigned.get(topic_id, NOTHING).keys() for topic_id, partitions in owned.items())
