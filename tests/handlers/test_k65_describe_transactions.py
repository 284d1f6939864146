"""DescribeTransactions: golden frames of real clients; what is said of each state."""

from __future__ import annotations

import pytest

from minibroker.coordinator.transaction.records import TransactionMetadata, TransactionState
from minibroker.schemas import k26_end_txn as k26
from minibroker.schemas import k65_describe_transactions as schema
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import begin, broker_that_knows, init_producer

REQUESTS = sorted(
    name for name, frame in all_golden().items() if frame.stem == "k65_describe_transactions" and frame.direction == "request"
)


def describe(broker: BrokerInMemory, *transactional_ids: str) -> list[schema.TransactionState]:
    answer: schema.Response = broker.ask(schema.Request(transactional_ids=list(transactional_ids)))
    return answer.transaction_states


def _state(told: schema.TransactionState) -> TransactionMetadata:
    return TransactionMetadata(
        told.transactional_id,
        told.producer_id,
        told.producer_epoch,
        told.transaction_timeout_ms,
        next(each for each in TransactionState if each.kafka_name == told.transaction_state),
        0,
        told.transaction_start_time_ms,
        frozenset((topic.topic, index) for topic in told.topics for index in topic.partitions),
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    result = answer_of(request).transaction_states
    broker = broker_that_knows(kafka_like(), [_state(each) for each in result if not each.error_code])
    assert serve(broker, request) == kafka_answer(request)


def test_transaction_lifecycle() -> None:
    broker = BrokerInMemory(topics={"a": 2, "b": 1})
    ids = init_producer(broker)
    (result,) = describe(broker, "payments")
    assert (result.transaction_state, result.transaction_start_time_ms, result.topics) == ("Empty", -1, [])
    assert (result.error_code, result.producer_id, result.producer_epoch, result.transaction_timeout_ms) == (0, *ids, 60_000)

    begun_ms = broker.clock.now_ms()
    begin(broker, ids, ("b", 0), ("a", 1), ("a", 0))
    broker.clock.advance(50)
    (result,) = describe(broker, "payments")
    assert (result.transaction_state, result.transaction_start_time_ms) == ("Ongoing", begun_ms)
    assert result.topics == [schema.Topic(topic="a", partitions=[0, 1]), schema.Topic(topic="b", partitions=[0])]

    request = k26.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=False)
    assert broker.ask(request).error_code == 0
    (result,) = describe(broker, "payments")
    assert (result.transaction_state, result.transaction_start_time_ms, result.topics) == ("CompleteAbort", begun_ms, [])
    assert result.producer_epoch == ids.producer_epoch + 1


def test_each_id_has_its_own_result() -> None:
    broker = BrokerInMemory()
    assert [each.error_code for each in describe(broker, "payments", "")] == [16, 42]
    init_producer(broker)
    result = describe(broker, "payments", "", "orders", "payments")
    assert [(each.transactional_id, each.error_code) for each in result] == [("payments", 0), ("", 42), ("orders", 105), ("payments", 0)]
    for refused in result[1:3]:
        assert (refused.producer_id, refused.producer_epoch, refused.transaction_state, refused.topics) == (0, 0, "", [])
