"""Replicas, in-sync set and leader of one partition, and what becomes of them: rules that change nothing and know nobody.

They are those of Apache Kafka's controller (PartitionChangeBuilder of 4.3.1) for replicas that are never behind. `alive` are the ids of the
brokers that run; `may_be_unclean` is what unclean.leader.election.enable says for the topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from minibroker.cluster.nodes import NO_LEADER
from minibroker.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable


class Standing(NamedTuple):
    """Of one partition."""

    replicas: list[int]  #: the preferred leader first
    in_sync: list[int]  #: in the order of the replicas
    leader_id: int  #: NO_LEADER
    is_taken: bool = False  #: it has no leader because somebody said so: no election gives it one


def first_standing(replicas: list[int], alive: AbstractSet[int]) -> Standing:
    """Of a new partition: its first leader costs no epoch."""
    there = [each for each in replicas if each in alive]
    return Standing(replicas, there or replicas[:1], there[0] if there else NO_LEADER)


def elected(standing: Standing, alive: AbstractSet[int], *, may_be_unclean: bool) -> Standing:
    """With the first that may lead; with nobody if there is none."""
    if standing.is_taken:
        return standing._replace(leader_id=NO_LEADER)
    there = [each for each in standing.replicas if each in alive]
    candidates = [each for each in there if each in standing.in_sync]
    if candidates:
        return standing._replace(leader_id=candidates[0])
    if there and may_be_unclean:
        return standing._replace(leader_id=there[0], in_sync=there[:1])
    return standing._replace(leader_id=NO_LEADER)


def left_by(standing: Standing, node_id: int, alive: AbstractSet[int], *, may_be_unclean: bool) -> Standing:
    """A broker stopped: it leaves the in-sync set, unless it is the last in it, and others lead what it led."""
    if node_id not in standing.in_sync:
        return standing
    without = standing._replace(in_sync=[each for each in standing.in_sync if each != node_id] or standing.in_sync)
    return elected(without, alive, may_be_unclean=may_be_unclean) if standing.leader_id == node_id else without


def joined_by(standing: Standing, node_id: int, alive: AbstractSet[int], *, may_be_unclean: bool) -> Standing:
    """A broker started: it is in sync at once where somebody leads, or can now."""
    if node_id not in standing.replicas:
        return standing
    if standing.leader_id == NO_LEADER and not standing.is_taken:
        standing = elected(standing, alive, may_be_unclean=may_be_unclean)
        if standing.leader_id == NO_LEADER:
            return standing  # nobody is there whom it could have caught up with
    return standing._replace(in_sync=[each for each in standing.replicas if each in {*standing.in_sync, node_id}])


def led_by_preferred(standing: Standing, alive: AbstractSet[int]) -> Standing:
    """The first replica leads; ElectionNotNeeded, PreferredLeaderNotAvailable."""
    preferred = standing.replicas[0]
    if standing.is_taken:
        raise PreferredLeaderNotAvailable
    if standing.leader_id == preferred:
        raise ElectionNotNeeded
    if preferred not in alive or preferred not in standing.in_sync:
        raise PreferredLeaderNotAvailable
    return standing._replace(leader_id=preferred)


def led_by_anybody(standing: Standing, alive: AbstractSet[int]) -> Standing:
    """Somebody leads what nobody led; ElectionNotNeeded, EligibleLeadersNotAvailable."""
    if standing.is_taken:
        raise EligibleLeadersNotAvailable
    if standing.leader_id != NO_LEADER:
        raise ElectionNotNeeded
    there = [each for each in standing.replicas if each in alive]
    if not there:
        raise EligibleLeadersNotAvailable
    in_sync = [each for each in there if each in standing.in_sync] or there[:1]
    return standing._replace(leader_id=in_sync[0], in_sync=in_sync)


def led_by(standing: Standing, node_id: int) -> Standing:
    """This broker leads, whoever is preferred; without a replica it gets that of the leader before, or the first."""
    replicas = standing.replicas
    if node_id not in replicas:
        gone = standing.leader_id if standing.leader_id in replicas else replicas[0]
        replicas = [node_id if each == gone else each for each in replicas]
    return Standing(replicas, [each for each in replicas if each in {*standing.in_sync, node_id}], node_id)


def reassigned(standing: Standing, replicas: Sequence[int], alive: AbstractSet[int], *, may_be_unclean: bool) -> Standing:
    """Other replicas, all that are alive in sync; the leader stays if it is among them."""
    in_sync = [each for each in replicas if each in alive] or list(replicas[:1])
    after = Standing(list(replicas), in_sync, standing.leader_id, standing.is_taken)
    return after if standing.leader_id in in_sync else elected(after, alive, may_be_unclean=may_be_unclean)
