"""Replicas of new topics: spread evenly, over racks, and always the same."""

from __future__ import annotations

from collections import Counter

import pytest

from minibroker.testing.simulation.replica_placement import spread

THREE: dict[int, str | None] = {1: None, 2: None, 3: None}


@pytest.mark.parametrize("replication_factor", [1, 2, 3])
def test_every_broker_leads_and_holds_as_much_as_the_others(replication_factor: int) -> None:
    replicas = spread("orders", range(18), replication_factor, THREE)

    assert Counter(each[0] for each in replicas) == {1: 6, 2: 6, 3: 6}
    assert Counter(node for each in replicas for node in each) == dict.fromkeys(THREE, 6 * replication_factor)
    assert all(len(set(each)) == replication_factor for each in replicas)


def test_followers_of_a_leader_are_not_always_the_same() -> None:
    assert len({tuple(each) for each in spread("orders", range(6), 2, THREE)}) == 6


def test_a_topic_is_always_in_the_same_place_and_others_elsewhere() -> None:
    assert spread("orders", range(6), 2, THREE) == spread("orders", range(6), 2, THREE)
    assert spread("orders", range(3, 6), 2, THREE) == spread("orders", range(6), 2, THREE)[3:]
    assert {spread(name, range(1), 1, THREE)[0][0] for name in ("orders", "clicks", "users", "items", "carts", "visits")} == {1, 2, 3}


@pytest.mark.parametrize("racks", [{1: "a", 2: "a", 3: "b", 4: "b"}, {1: "a", 2: "a", 3: "a", 4: "b"}])
def test_replicas_are_spread_over_racks(racks: dict[int, str | None]) -> None:
    for replicas in spread("orders", range(12), 2, racks):
        assert {racks[node] for node in replicas} == {"a", "b"}
    assert all(len(set(replicas)) == 4 for replicas in spread("orders", range(12), 4, racks))


@pytest.mark.parametrize("replication_factor", [1, 2, 3])
def test_stopped_broker_does_not_lead_new_partitions(replication_factor: int) -> None:
    replicas = spread("orders", range(12), replication_factor, THREE, alive={1, 3})

    assert {each[0] for each in replicas} == {1, 3}
    assert all(len(set(each)) == replication_factor for each in replicas)
    assert all(2 not in each[:2] for each in replicas)
    assert spread("orders", range(12), replication_factor, THREE, alive={1, 2, 3}) == spread("orders", range(12), replication_factor, THREE)


def test_racks_outrank_liveness_except_for_leaders() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "c"}
    for replicas in spread("orders", range(12), 3, racks, alive={1, 3}):
        assert replicas[0] in {1, 3}
        assert {racks[node] for node in replicas} == {"a", "b", "c"}
        assert 2 not in replicas
