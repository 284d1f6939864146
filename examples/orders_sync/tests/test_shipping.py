"""Shipping on a broker: the same on minibroker and on Apache Kafka, but for what only minibroker can do, which skips."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minibroker.testing import Surface
from orders_sync.prices import read_prices
from orders_sync.shipping import Replaced, Shipping
from orders_sync.tests.conftest import order, ship, shipped

Start = Callable[..., Shipping]


def test_orders_are_shipped_or_rejected(minibroker: Surface, worker: Start) -> None:
    minibroker.produce("orders", order(1, "apples", 2), order(2, "plums"), "nonsense", order(3, "pears"), partition=0)
    ship(worker(), 4)
    totals = {record.json()["order_id"]: record.json()["total_cents"] for record in minibroker.records("shipments", count=2)}
    assert totals == {"o1": 240, "o3": 300}
    rejected = [dict(record.headers) for record in minibroker.records("rejected-orders", count=2)]
    assert {headers["origin"] for headers in rejected} == {b"orders-0@1", b"orders-0@2"}
    assert b"there is no product 'plums'" in {headers["reason"] for headers in rejected}


def test_the_last_price_counts(minibroker: Surface) -> None:
    minibroker.produce("prices", "140", key="apples")
    minibroker.produce("prices", None, key="pears")
    assert read_prices(minibroker.bootstrap_servers) == {"apples": 140}


def test_a_worker_goes_on_where_the_last_one_ended(minibroker: Surface, worker: Start) -> None:
    minibroker.produce("orders", order(1), order(2))
    first = worker()
    ship(first, 2)
    first.close()
    minibroker.produce("orders", order(3))
    ship(worker(), 1)
    assert shipped(minibroker, 3) == ["o1", "o2", "o3"]


def test_two_workers_share_the_orders(minibroker: Surface, worker: Start) -> None:
    workers = [worker("1"), worker("2")]

    def poll() -> None:
        for each in workers:
            each.step(0.01)

    assigned = minibroker.wait_assigned("shipping", members=2, poll=poll)
    assert sorted(assigned.values()) == [[("orders", 0)], [("orders", 1)]]
    for partition in (0, 1):
        minibroker.produce("orders", order(partition), partition=partition)
    done = [0, 0]
    while sum(done) < 2:
        done = [before + each.step(0.1) for before, each in zip(done, workers, strict=True)]
    assert done == [1, 1]
    assert shipped(minibroker, 2) == ["o0", "o1"]


def test_a_worker_that_stalls_is_replaced_and_nothing_is_shipped_twice(
    minibroker: Surface, worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    minibroker.produce("orders", order(1), order(2))
    stalling = worker("till")
    others = []

    def retried(work: Callable[[], object]) -> None:
        if work == stalling._producer.commit_transaction:
            stalling._producer.flush()
            assert minibroker.records("shipments") == []
            assert len(minibroker.records("shipments", isolation="read_uncommitted")) == 2
            others.append(worker("till"))
        Shipping._retried(work)

    monkeypatch.setattr(stalling, "_retried", retried)
    with pytest.raises(Replaced):
        ship(stalling, 2)
    stalling.close()
    ship(others[0], 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]


def test_offsets_are_committed_by_transactions_alone(minibroker: Surface, worker: Start) -> None:
    minibroker.produce("orders", order(1))
    ship(worker("till"), 1)
    asked = minibroker.request_log
    assert asked.of("TxnOffsetCommit", client_id="till", group="shipping")
    assert not asked.of("OffsetCommit")


def test_a_worker_whose_transaction_took_too_long_ends_and_the_next_one_ships(
    minibroker: Surface, worker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    minibroker.produce("orders", order(1), order(2))
    slow = worker("till")

    def retried(work: Callable[[], object]) -> None:
        if work == slow._producer.commit_transaction:
            slow._producer.flush()
            minibroker.advance(minutes=2)
        Shipping._retried(work)

    monkeypatch.setattr(slow, "_retried", retried)
    with pytest.raises(Replaced):
        ship(slow, 2)
    assert minibroker.records("shipments") == []
    slow.close()
    ship(worker("till"), 2)
    assert shipped(minibroker, 2) == ["o1", "o2"]
