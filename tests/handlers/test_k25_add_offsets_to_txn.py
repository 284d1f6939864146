"""AddOffsetsToTxn: golden frames of real clients, and codes as Apache Kafka 4.3.1 gave them (measured 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.coordinator.stored_topic import partition_of
from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.schemas import k25_add_offsets_to_txn as schema
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import broker_that_knows, coordinator_of, init_producer, state_that_answers

REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == "k25_add_offsets_to_txn" and frame.direction == "request")


def ask(broker: BrokerInMemory, ids: ProducerIdAndEpoch, group_id: str = "g", *, name: str = "payments", version: int = 4) -> int:
    request = schema.Request(transactional_id=name, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, group_id=group_id)
    answer: schema.Response = broker.ask(request, version)
    return answer.error_code


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    requested = request.decode()
    states = state_that_answers(
        answer_of(request).error_code, requested.transactional_id, (requested.producer_id, requested.producer_epoch)
    )
    assert serve(broker_that_knows(kafka_like(), states), request) == kafka_answer(request)


@pytest.mark.parametrize("version", range(5))
def test_partition_of_the_group_is_added(version: int) -> None:
    broker = BrokerInMemory()
    ids = init_producer(broker)
    assert [ask(broker, ids, group_id, version=version) for group_id in ("g", "other", "", "g")] == [0, 0, 0, 0]
    state = coordinator_of(broker).get("payments")
    assert state is not None
    assert state.state.kafka_name == "Ongoing"
    assert state.partitions == {("__consumer_offsets", partition_of(group_id)) for group_id in ("g", "other", "")}
    assert state.client_transaction_version == 0


@pytest.mark.parametrize("version", range(5))
def test_refusals(version: int) -> None:
    broker = BrokerInMemory(config={"offsets.topic.num.partitions": "50"})
    ids = init_producer(broker)
    fenced = 47 if version < 2 else 90
    assert ask(broker, ids._replace(producer_epoch=1), version=version) == fenced
    assert ask(broker, ids._replace(producer_epoch=-1), version=version) == fenced
    assert ask(broker, ids._replace(producer_id=9), version=version) == 49
    assert ask(broker, ids, name="", version=version) == 42
    assert ask(broker, ids, name="nobody", version=version) == 49
    assert ask(BrokerInMemory(), ids, version=version) == 16
