"""The two halves of a step: under way, then applied or as if it had never been."""

from __future__ import annotations

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.coordinator.transaction.store import TransactionalIds
from minibroker.errors import ConcurrentTransactions

EMPTY = TransactionMetadata("payments", 7, 5, 1_000, TransactionState.EMPTY, 700)
ONGOING = EMPTY._replace(state=TransactionState.ONGOING, partitions=frozenset({("a", 0)}))


def test_pending_transition_is_not_visible_and_excludes_others() -> None:
    transactions = TransactionalIds({"payments": EMPTY})
    transactions.prepare(ONGOING)
    assert transactions.get("payments") is EMPTY
    assert list(transactions.all_settled()) == []
    with pytest.raises(ConcurrentTransactions):
        transactions.settled("payments")
    with pytest.raises(ConcurrentTransactions):
        transactions.prepare(EMPTY)
    assert transactions.apply("payments") is ONGOING
    assert transactions.settled("payments") is ONGOING


def test_failed_write_leaves_no_trace() -> None:
    transactions = TransactionalIds()
    transactions.prepare(EMPTY)
    transactions.give_up("payments")
    assert transactions.settled("payments") is None
    assert len(transactions) == 0


def test_tombstone_removes_the_id() -> None:
    transactions = TransactionalIds({"payments": EMPTY})
    for each in transactions.all_settled():
        transactions.prepare(each._replace(state=TransactionState.DEAD))
        transactions.apply("payments")
    assert transactions.get("payments") is None


def test_unfinished_transactions_are_found_at_start() -> None:
    states = {state.name: EMPTY._replace(transactional_id=state.name, state=state) for state in list(TransactionState)[:6]}
    assert [each.state for each in TransactionalIds(states).unfinished()] == [
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    ]
