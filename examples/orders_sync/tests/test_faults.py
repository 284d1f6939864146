"""What may go wrong on the way, at the moment where it hurts; only minibroker can be told so, and on another Kafka these skip."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.testing import Surface
from orders_sync.shipping import Replaced, Shipping
from orders_sync.tests.conftest import order, ship, shipped

Start = Callable[..., Shipping]


def test_a_leader_that_moves_is_waited_for(minibroker: Surface, worker: Start) -> None:
    moved = minibroker.faults.inject("Produce", "NOT_LEADER_OR_FOLLOWER", topic="shipments").times(2)
    minibroker.produce("orders", order(1), order(2))
    ship(worker(), 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]
    assert moved.hits == 2


def test_a_commit_whose_answer_is_lost_counts_once(minibroker: Surface, worker: Start) -> None:
    lost = minibroker.faults.disconnect("EndTxn", when="after").once()
    minibroker.produce("orders", order(1), order(2))
    ship(worker(), 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]
    assert lost.hits == 1


def test_a_worker_that_the_group_has_lost_gives_up_its_transaction(minibroker: Surface, worker: Start) -> None:
    expelled = minibroker.faults.inject("TxnOffsetCommit", "UNKNOWN_MEMBER_ID", group="shipping").once()
    minibroker.produce("orders", order(1), order(2))
    ship(worker(), 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]
    assert expelled.hits == 1
    assert len(minibroker.request_log.of("EndTxn")) == 2  # one undone, one committed


def test_a_worker_that_is_fenced_ends_and_the_next_one_ships(minibroker: Surface, worker: Start) -> None:
    minibroker.faults.inject("EndTxn", "PRODUCER_FENCED", transactional_id="shipping-till").once()
    minibroker.produce("orders", order(1), order(2))
    fenced = worker("till")
    with pytest.raises(Replaced):
        ship(fenced, 2)
    assert minibroker.records("shipments") == []
    fenced.close()
    ship(worker("till"), 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]
