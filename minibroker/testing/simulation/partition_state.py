"""Replicas, in-sync set and leader of one partition, and what becomes of them: rules that change nothing and know nobody.

They are those of Apache Kafka's controller (PartitionChangeBuilder of 4.3.1) for replicas that have every record at once:

    somebody leads   all replicas that are alive are in sync
    nobody leads     none is, and it is known who was: the replicas that are eligible may lead when they are back, whoever comes first
    eligible         those that left while fewer than min.insync.replicas (or than there are replicas) were in sync behind them: nothing
                     can have been committed without them (KIP-966). The last one in sync always is; an unclean leader ends all claims

At level 0 of eligible.leader.replicas.version no replica becomes eligible. The last ones in sync stay in sync instead while there is no
leader, and may lead when they are back. Replicas that were eligible before lose that with the next change.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from minibroker.cluster.nodes.nodes import NO_LEADER
from minibroker.errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable


class Standing(NamedTuple):
    """Of one partition."""

    replicas: list[int]  #: the preferred leader first
    in_sync: list[int]  #: in the order of the replicas; all of them alive while there is a leader
    leader_id: int  #: NO_LEADER
    is_taken: bool = False  #: it has no leader because somebody said so: no election gives it one
    eligible: tuple[int, ...] = ()  #: not in sync, and yet they may lead
    last_leader_id: int = NO_LEADER  #: who led last, where nobody does
    adding: tuple[int, ...] = ()  #: replicas of a reassignment that runs: not in sync, and they may not lead


class Given(NamedTuple):
    """What else a rule has to know."""

    alive: AbstractSet[int]  #: ids of the brokers that run
    in_sync_min: int  #: min.insync.replicas of the topic
    may_be_unclean: bool  #: unclean.leader.election.enable of the topic
    has_eligible: bool = True  #: level 1 of eligible.leader.replicas.version


def first_standing(replicas: list[int], alive: AbstractSet[int]) -> Standing:
    """Of a new partition: its first leader costs no epoch."""
    there = [each for each in replicas if each in alive]
    return Standing(replicas, there, there[0]) if there else Standing(replicas, [], NO_LEADER, eligible=tuple(sorted(replicas)))


def elected(standing: Standing, given: Given) -> Standing:
    """With the first that may lead; with nobody if there is none."""
    if standing.is_taken:
        return _led(standing, NO_LEADER, given)
    there = [each for each in standing.replicas if each in given.alive and each not in standing.adding]
    entitled = [each for each in there if may_lead(standing, each)]
    if not entitled and given.may_be_unclean:
        return _led(standing, there[0], given) if there else _led(standing, NO_LEADER, given)
    return _led(standing, entitled[0] if entitled else NO_LEADER, given)


def taken(standing: Standing) -> Standing:
    """Nobody leads it, whoever could."""
    return standing._replace(leader_id=NO_LEADER, is_taken=True, last_leader_id=_last_leader_id(standing))


def left_by(standing: Standing, node_id: int, given: Given) -> Standing:
    """A broker stopped (it is not alive any more): it is not in sync, and others lead what it led."""
    if node_id not in standing.in_sync:
        return standing
    return elected(standing, given) if standing.leader_id == node_id else _led(standing, standing.leader_id, given)


def joined_by(standing: Standing, node_id: int, given: Given) -> Standing:
    """A broker started: it is in sync at once where somebody leads, or can now."""
    if node_id not in standing.replicas:
        return standing
    return elected(standing, given) if standing.leader_id == NO_LEADER else _led(standing, standing.leader_id, given)


def led_by_preferred(standing: Standing, given: Given) -> Standing:
    """The first replica leads; ElectionNotNeeded, PreferredLeaderNotAvailable."""
    preferred = standing.replicas[0]
    if standing.is_taken:
        raise PreferredLeaderNotAvailable
    if standing.leader_id == preferred:
        raise ElectionNotNeeded
    if preferred not in standing.in_sync or preferred not in given.alive:
        raise PreferredLeaderNotAvailable
    return _led(standing, preferred, given)


def led_by_anybody(standing: Standing, given: Given) -> Standing:
    """Somebody leads what nobody led; ElectionNotNeeded, EligibleLeadersNotAvailable."""
    if standing.is_taken:
        raise EligibleLeadersNotAvailable
    if standing.leader_id != NO_LEADER:
        raise ElectionNotNeeded
    after = elected(standing, given._replace(may_be_unclean=True))
    if after.leader_id == NO_LEADER:
        raise EligibleLeadersNotAvailable
    return after


def led_by(standing: Standing, node_id: int, given: Given) -> Standing:
    """This broker, which is alive, leads, whoever is preferred; without a replica it gets that of the leader before, or the first."""
    replicas = standing.replicas
    if node_id not in replicas:
        gone = standing.leader_id if standing.leader_id in replicas else replicas[0]
        replicas = [node_id if each == gone else each for each in replicas]
    adding = tuple(each for each in standing.adding if each != node_id)
    return _led(standing._replace(replicas=replicas, is_taken=False, adding=adding), node_id, given)


def reassigned(standing: Standing, replicas: Sequence[int], given: Given) -> Standing:
    """Other replicas, which all have everything at once; the leader stays if it is among them."""
    after = standing._replace(replicas=list(replicas), eligible=tuple(replicas), adding=())
    stays = standing.leader_id in replicas and standing.leader_id in given.alive
    return _led(after, standing.leader_id, given) if stays else elected(after, given)


def reassigning(standing: Standing, replicas: Sequence[int], adding: Sequence[int]) -> Standing:
    """A reassignment begins, or is cancelled: other replicas, of which those `adding` are not in sync; the leader stays."""
    return standing._replace(replicas=list(replicas), adding=tuple(adding))


def may_lead(standing: Standing, node_id: int) -> bool:
    """Whether a replica has all that was committed."""
    return node_id in standing.in_sync or node_id in standing.eligible


def _led(before: Standing, leader_id: int, given: Given) -> Standing:
    """The same replicas with this leader, or NO_LEADER: who is in sync then, and who is eligible."""
    alive = [each for each in before.replicas if each in given.alive and each not in before.adding]
    is_led = leader_id != NO_LEADER or (before.is_taken and any(may_lead(before, each) for each in alive))
    last_in_sync = [] if given.has_eligible else [each for each in before.in_sync if each in before.replicas]
    in_sync = alive if is_led else last_in_sync
    eligible = tuple(sorted({*before.in_sync, *before.eligible}.intersection(before.replicas).difference(in_sync)))
    is_unclean = leader_id != NO_LEADER and before.leader_id == NO_LEADER and not may_lead(before, leader_id)
    if is_unclean or not given.has_eligible or len(in_sync) >= min(given.in_sync_min, len(before.replicas)):
        eligible = ()
    last_leader_id = before.last_leader_id
    if given.has_eligible:
        last_leader_id = NO_LEADER if leader_id != NO_LEADER else _last_leader_id(before)
    return Standing(before.replicas, in_sync, leader_id, before.is_taken, eligible, last_leader_id, before.adding)


def _last_leader_id(before: Standing) -> int:
    return before.last_leader_id if before.leader_id == NO_LEADER else before.leader_id
