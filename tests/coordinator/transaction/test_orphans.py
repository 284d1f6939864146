"""Transactions that a log has open and no transactional id knows of, as power losses leave them, end at the next start."""

from __future__ import annotations

import logging

import pytest

from minibroker.coordinator.transaction.marking import MARKERS_A_TURN
from minibroker.coordinator.transaction.records import MAX_EPOCH, ProducerIdAndEpoch, TransactionMetadata, TransactionState
from minibroker.records.builder import build_batch
from minibroker.records.record import Record
from minibroker.schemas import k22_init_producer_id as k22
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.transactional_ids import begin, broker_that_knows, coordinator_of, init_producer, is_stable, markers, write

COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
ABORTED, COMMITTED = False, True


def known(state: TransactionState, epoch: int, *, producer_id: int = 0, previous: int = 0, version: int = 2) -> TransactionMetadata:
    return TransactionMetadata(
        "payments", producer_id, epoch, 60_000, state, 0, 0, previous_producer_id=previous, client_transaction_version=version
    )


def left_open(epoch: int = 0) -> BrokerInMemory:
    """Producer 0 wrote in two transactions; the second one is open in a log, and in no other record."""
    broker = BrokerInMemory(topics={"a": 2})
    assert broker.cluster.metadata.allocate_producer_id() == 0
    write(broker, ProducerIdAndEpoch(0, epoch), "a", 1)
    return broker


def test_transaction_of_an_unknown_id_is_aborted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        broker = broker_that_knows(left_open(), [])
    assert is_stable(broker, "a", 1)
    assert markers(broker, "a", 1) == [(ABORTED, 1)]
    assert markers(broker, "a", 0) == []
    assert "a-1: a transaction of producer id 0, open from offset 0 on and unknown to all transactional ids, is aborted" in caplog.text


def test_transaction_is_aborted_if_the_state_topic_is_missing() -> None:
    broker = left_open().restart()
    assert markers(broker, "a", 1) == [(ABORTED, 1)]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (known(TransactionState.EMPTY, 3), (ABORTED, 4)),
        (known(COMPLETE_COMMIT, 3), (ABORTED, 4)),  # that was the transaction before
        (known(COMPLETE_COMMIT, 4), (COMMITTED, 4)),  # that was this one, and its marker is lost
        (known(COMPLETE_ABORT, 4), (ABORTED, 4)),
        (known(COMPLETE_COMMIT, 5), (ABORTED, 4)),
        (known(COMPLETE_COMMIT, 3, version=0), (ABORTED, 4)),  # one epoch for many transactions: nobody knows
        (known(COMPLETE_COMMIT, 4, version=0), (ABORTED, 4)),
    ],
)
def test_transaction_before_the_known_epoch_is_ended(metadata: TransactionMetadata, expected: tuple[bool, int]) -> None:
    broker = broker_that_knows(left_open(epoch=3), [metadata])
    assert is_stable(broker, "a", 1)
    assert markers(broker, "a", 1) == [expected]


def test_transaction_of_a_replaced_producer_id_is_committed() -> None:
    broker = broker_that_knows(left_open(epoch=MAX_EPOCH - 1), [known(COMPLETE_COMMIT, 0, producer_id=1)])
    assert markers(broker, "a", 1) == [(COMMITTED, MAX_EPOCH)]


def test_maximum_epoch_cannot_be_fenced_further() -> None:
    broker = broker_that_knows(left_open(epoch=MAX_EPOCH), [])
    assert markers(broker, "a", 1) == [(ABORTED, MAX_EPOCH)]


@pytest.mark.parametrize("bumps", [True, False])
def test_known_transaction_stays_open(bumps: bool) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    begin(broker, init_producer(broker), ("a", 1), bumps=bumps)
    broker = broker.restart()
    assert not is_stable(broker, "a", 1)
    assert markers(broker, "a", 1) == []


def test_partition_missing_from_a_known_transaction_is_aborted() -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    write(broker, ids, "a", 1)
    broker = broker.restart()
    assert (markers(broker, "a", 0), markers(broker, "a", 1)) == ([], [(ABORTED, 1)])


def test_fenced_producer_continues_with_a_new_epoch() -> None:
    broker = left_open()
    empty = known(TransactionState.EMPTY, 0)
    broker = broker_that_knows(broker, [empty])
    with pytest.raises(Exception, match="epoch"):
        write(broker, ProducerIdAndEpoch(0, 0), "a", 1, first=3)

    answer = broker.ask(k22.Request(transactional_id="payments", transaction_timeout_ms=60_000, producer_id=0, producer_epoch=0))

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 1)
    begin(broker, ProducerIdAndEpoch(0, 1), ("a", 1))


def test_unknown_ids_are_kept_if_the_state_topic_is_partly_unreadable() -> None:
    broker = left_open()
    coordinator_of(broker)
    log = broker.cluster.partition("__transaction_state", 3).log
    log.append_own(build_batch([Record(0, 0, b"\0", None)]))
    broker = broker.restart()
    assert not is_stable(broker, "a", 1)


def test_many_orphaned_transactions_are_aborted_in_steps() -> None:
    broker = BrokerInMemory(topics={"a": 250})
    broker.cluster.metadata.allocate_producer_id()
    for index in range(250):
        write(broker, ProducerIdAndEpoch(0, 0), "a", index, count=1)
    broker = broker_that_knows(broker, [])
    assert sum(is_stable(broker, "a", index) for index in range(250)) == MARKERS_A_TURN
    broker.clock.advance(0)
    assert all(is_stable(broker, "a", index) for index in range(250))


def test_orphaned_transaction_is_aborted_once() -> None:
    broker = broker_that_knows(left_open(), []).restart(clean=False).restart()
    assert markers(broker, "a", 1) == [(ABORTED, 1)]
