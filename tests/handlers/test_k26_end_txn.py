"""EndTxn: golden frames of real clients, and the codes of each version. What may end when: tests/coordinator/transaction."""

from __future__ import annotations

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.schemas import k26_end_txn as schema
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import begin, broker_that_knows, init_producer, state_that_answers

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k26_end_txn" and frame.direction == "request")


def end(broker: BrokerInMemory, ids: ProducerIdAndEpoch, *, version: int = 5, commit: bool = True) -> schema.Response:
    request = schema.Request(transactional_id="payments", producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, committed=commit)
    answer: schema.Response = broker.ask(request, version)
    return answer


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    requested = request.decode()
    states = state_that_answers(
        answer_of(request).error_code, requested.transactional_id, (requested.producer_id, requested.producer_epoch)
    )
    assert serve(broker_that_knows(kafka_like(), states), request) == kafka_answer(request)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_end_can_be_retried(version: int, commit: bool) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    begin(broker, ids, ("a", 0))

    answers = [end(broker, ids, version=version, commit=commit) for _ in range(2)]

    result = (0, ids.producer_id, ids.producer_epoch + 1) if version == 5 else (0, -1, -1)
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [result, result]


@pytest.mark.parametrize(("version", "error_code"), [(0, 47), (1, 47), (2, 90), (3, 90), (4, 90), (5, 90)])
def test_a_zombie(version: int, error_code: int) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    zombie = init_producer(broker)
    begin(broker, init_producer(broker), ("a", 0))
    answer = end(broker, zombie, version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error_code, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_unknown_transactional_id(version: int) -> None:
    broker = BrokerInMemory()
    init_producer(broker, "orders")
    answer = end(broker, ProducerIdAndEpoch(0, 0), version=version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (49, -1, -1)


@pytest.mark.parametrize("version", range(6))
def test_without_a_coordinator(version: int) -> None:
    assert end(BrokerInMemory(), ProducerIdAndEpoch(0, 0), version=version).error_code == 16
