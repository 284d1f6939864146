"""Replicas, in-sync replicas and leader of one partition, and the rules by which they change.

All functions are pure.

The rules are those of Apache Kafka's controller (PartitionChangeBuilder of 4.3.1), for replicas
that have every record at once:

    a leader     all replicas that are alive are in sync
    no leader    no replica is in sync. The first eligible replica that comes back becomes leader
    eligible     replicas that stopped while fewer than min.insync.replicas (or than all replicas) were in sync after them. No record can
                 have been committed without them (KIP-966). The last replica in sync is always eligible. After an unclean election no
                 replica is

At level 0 of eligible.leader.replicas.version no replica becomes eligible. Instead, the last
replicas in sync stay in sync while there is no leader, and may become leader when they are back.
Replicas that were eligible before lose that with the next change.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from minibroker.cluster.nodes import NO_LEADER
from minibroker.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable


class PartitionState(NamedTuple):
    """The replicas and the leader of one partition."""

    replicas: list[int]  #: the preferred leader first
    in_sync: list[int]  #: in the order of the replicas; all of them alive while there is a leader
    leader_id: int  #: NO_LEADER
    is_taken_away: bool = False  #: a test took the leader away: no election chooses one
    eligible: tuple[int, ...] = ()  #: replicas that are not in sync and may become leader
    last_leader_id: int = NO_LEADER  #: the last leader, while there is none
    adding: tuple[int, ...] = ()  #: new replicas of a running reassignment: not in sync, and never leader


class ElectionContext(NamedTuple):
    """The brokers and configs on which an election depends."""

    alive: AbstractSet[int]  #: ids of the brokers that run
    in_sync_min: int  #: min.insync.replicas of the topic
    may_be_unclean: bool  #: unclean.leader.election.enable of the topic
    has_eligible: bool = True  #: level 1 of eligible.leader.replicas.version


def first_state(replicas: list[int], alive: AbstractSet[int]) -> PartitionState:
    """Return the state of a new partition: its first leader does not raise the epoch."""
    there = [each for each in replicas if each in alive]
    return PartitionState(replicas, there, there[0]) if there else PartitionState(replicas, [], NO_LEADER, eligible=tuple(sorted(replicas)))


def with_elected_leader(state: PartitionState, context: ElectionContext) -> PartitionState:
    """Elect the first replica that may lead, if any."""
    if state.is_taken_away:
        return _with_leader_id(state, NO_LEADER, context)
    there = [each for each in state.replicas if each in context.alive and each not in state.adding]
    entitled = [each for each in there if may_lead(state, each)]
    if not entitled and context.may_be_unclean:
        return _with_leader_id(state, there[0], context) if there else _with_leader_id(state, NO_LEADER, context)
    return _with_leader_id(state, entitled[0] if entitled else NO_LEADER, context)


def without_leader(state: PartitionState) -> PartitionState:
    """Take the leader away."""
    return state._replace(leader_id=NO_LEADER, is_taken_away=True, last_leader_id=_last_leader_id(state))


def after_stop_of(state: PartitionState, node_id: int, context: ElectionContext) -> PartitionState:
    """Remove a stopped broker from the in-sync replicas, and elect another leader if it was the leader."""
    if node_id not in state.in_sync:
        return state
    return with_elected_leader(state, context) if state.leader_id == node_id else _with_leader_id(state, state.leader_id, context)


def after_start_of(state: PartitionState, node_id: int, context: ElectionContext) -> PartitionState:
    """Add a started broker to the in-sync replicas, and elect a leader if there is none."""
    if node_id not in state.replicas:
        return state
    return with_elected_leader(state, context) if state.leader_id == NO_LEADER else _with_leader_id(state, state.leader_id, context)


def with_preferred_leader(state: PartitionState, context: ElectionContext) -> PartitionState:
    """Make the first replica the leader; raises ElectionNotNeeded, PreferredLeaderNotAvailable."""
    preferred = state.replicas[0]
    if state.is_taken_away:
        raise PreferredLeaderNotAvailable
    if state.leader_id == preferred:
        raise ElectionNotNeeded
    if preferred not in state.in_sync or preferred not in context.alive:
        raise PreferredLeaderNotAvailable
    return _with_leader_id(state, preferred, context)


def with_unclean_leader(state: PartitionState, context: ElectionContext) -> PartitionState:
    """Make any replica that is alive the leader; raises ElectionNotNeeded, EligibleLeadersNotAvailable."""
    if state.is_taken_away:
        raise EligibleLeadersNotAvailable
    if state.leader_id != NO_LEADER:
        raise ElectionNotNeeded
    after = with_elected_leader(state, context._replace(may_be_unclean=True))
    if after.leader_id == NO_LEADER:
        raise EligibleLeadersNotAvailable
    return after


def with_leader(state: PartitionState, node_id: int, context: ElectionContext) -> PartitionState:
    """Make a broker that is alive the leader.

    If it has no replica, it replaces the former leader, else the first replica.
    """
    replicas = state.replicas
    if node_id not in replicas:
        gone = state.leader_id if state.leader_id in replicas else replicas[0]
        replicas = [node_id if each == gone else each for each in replicas]
    adding = tuple(each for each in state.adding if each != node_id)
    return _with_leader_id(state._replace(replicas=replicas, is_taken_away=False, adding=adding), node_id, context)


def with_replicas(state: PartitionState, replicas: Sequence[int], context: ElectionContext) -> PartitionState:
    """Change the replicas, which have all records at once; the leader stays if it is one of them."""
    after = state._replace(replicas=list(replicas), eligible=tuple(replicas), adding=())
    stays = state.leader_id in replicas and state.leader_id in context.alive
    return _with_leader_id(after, state.leader_id, context) if stays else with_elected_leader(after, context)


def with_running_reassignment(state: PartitionState, replicas: Sequence[int], adding: Sequence[int]) -> PartitionState:
    """Start or cancel a reassignment: change the replicas, of which those `adding` are not in sync.

    The leader stays.
    """
    return state._replace(replicas=list(replicas), adding=tuple(adding))


def may_lead(state: PartitionState, node_id: int) -> bool:
    """Whether a replica has all committed records."""
    return node_id in state.in_sync or node_id in state.eligible


def _with_leader_id(before: PartitionState, leader_id: int, context: ElectionContext) -> PartitionState:
    """Set the leader, or NO_LEADER, and with it the in-sync and the eligible replicas."""
    alive = [each for each in before.replicas if each in context.alive and each not in before.adding]
    is_led = leader_id != NO_LEADER or (before.is_taken_away and any(may_lead(before, each) for each in alive))
    last_in_sync = [] if context.has_eligible else [each for each in before.in_sync if each in before.replicas]
    in_sync = alive if is_led else last_in_sync
    eligible = tuple(sorted({*before.in_sync, *before.eligible}.intersection(before.replicas).difference(in_sync)))
    is_unclean = leader_id != NO_LEADER and before.leader_id == NO_LEADER and not may_lead(before, leader_id)
    if is_unclean or not context.has_eligible or len(in_sync) >= min(context.in_sync_min, len(before.replicas)):
        eligible = ()
    last_leader_id = before.last_leader_id
    if context.has_eligible:
        last_leader_id = NO_LEADER if leader_id != NO_LEADER else _last_leader_id(before)
    return PartitionState(before.replicas, in_sync, leader_id, before.is_taken_away, eligible, last_leader_id, before.adding)


def _last_leader_id(before: PartitionState) -> int:
    return before.last_leader_id if before.leader_id == NO_LEADER else before.leader_id
