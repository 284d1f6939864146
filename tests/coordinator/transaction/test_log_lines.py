"""What an operator reads of transactions that did not end as their producers wanted; of the others nothing."""

from __future__ import annotations

import logging

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.schemas import k26_end_txn as k26
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.transactional_ids import begin, broker_that_knows, init_producer, state_of

TIMEOUT_MS = 15_000
LOGGER = "minibroker.coordinator.transaction.coordinator"


@pytest.fixture
def broker(caplog: pytest.LogCaptureFixture) -> BrokerInMemory:
    caplog.set_level(logging.INFO)
    return BrokerInMemory(topics={"a": 1})


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == LOGGER]


def test_commit_logs_nothing(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))
    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=True)
    assert broker.ask(request).error_code == 0
    init_producer(broker)
    broker.clock.advance(10 * TIMEOUT_MS)
    assert said(caplog) == []


def test_transaction_timeout_is_logged(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    begin(broker, init_producer(broker, timeout_ms=TIMEOUT_MS), ("a", 0))
    broker.clock.advance(10 * TIMEOUT_MS)
    assert state_of(broker) == "CompleteAbort"
    ((level, line),) = said(caplog)
    assert level == "WARNING"
    assert line.startswith("transactional id payments: its transaction has been open for ")
    assert line.endswith("longer than the producer's transaction.timeout.ms 15000: it is aborted, and producer id 0 with epoch 0 is fenced")


def test_fenced_producer_with_an_open_transaction_is_logged(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    begin(broker, init_producer(broker), ("a", 0))
    init_producer(broker)
    line = "transactional id payments: a new producer fences producer id 0 with epoch 0, whose open transaction is aborted"
    assert said(caplog) == [("INFO", line)]


def test_transaction_completed_at_start_is_logged(broker: BrokerInMemory, caplog: pytest.LogCaptureFixture) -> None:
    prepared = TransactionMetadata("payments", 0, 1, TIMEOUT_MS, TransactionState.PREPARE_COMMIT, 0, 0, frozenset({("a", 0)}))
    broker_that_knows(broker, [prepared])
    assert said(caplog) == [("INFO", "transactional id payments: completing its transaction (PrepareCommit)")]
