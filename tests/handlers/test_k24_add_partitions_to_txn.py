"""AddPartitionsToTxn: golden frames of real clients and of a broker to itself, and the codes of each version."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from minibroker.coordinator.transaction.records import ProducerIdAndEpoch
from minibroker.schemas import k24_add_partitions_to_txn as schema
from tests.golden import Golden, all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve
from tests.support.transactional_ids import broker_that_knows, coordinator_of, init_producer, state_that_answers

REQUESTS = sorted(
    name for name, frame in all_golden().items() if frame.stem == "k24_add_partitions_to_txn" and frame.direction == "request"
)
CONCURRENT = 51  #: in some of Kafka's answers, whose markers were on their way; ours are written when the end is answered

Codes = dict[tuple[str, int], int]


def ask(
    broker: BrokerInMemory, ids: ProducerIdAndEpoch, partitions: Iterable[tuple[str, int]], *, version: int, verify_only: bool = False
) -> Codes:
    """The code of each partition, for one transaction."""
    topics = [schema.Topic(name=name, partitions=[index]) for name, index in partitions]
    if version < 4:
        request = schema.Request(
            v3_and_below_transactional_id="payments",
            v3_and_below_producer_id=ids.producer_id,
            v3_and_below_producer_epoch=ids.producer_epoch,
            v3_and_below_topics=topics,
        )
        return _codes(broker.ask(request, version).results_by_topic_v3_and_below)
    transaction = schema.Transaction(
        transactional_id="payments",
        producer_id=ids.producer_id,
        producer_epoch=ids.producer_epoch,
        verify_only=verify_only,
        topics=topics,
    )
    (result,) = broker.ask(schema.Request(transactions=[transaction]), version).results_by_transaction
    assert result.transactional_id == "payments"
    return _codes(result.topic_results)


def _codes(results: Iterable[schema.TopicResult]) -> Codes:
    return {(topic.name, each.partition_index): each.partition_error_code for topic in results for each in topic.results_by_partition}


def _as_it_was(request: Golden) -> BrokerInMemory:
    """A broker with the topics and the transactional ids that the answer tells of."""
    requested, answer = request.decode(), answer_of(request)
    if request.version < 4:
        owner = (requested.v3_and_below_producer_id, requested.v3_and_below_producer_epoch)
        received = [(requested.v3_and_below_transactional_id, owner, answer.results_by_topic_v3_and_below)]
    else:
        received = [
            (each.transactional_id, (each.producer_id, each.producer_epoch), result.topic_results)
            for each, result in zip(requested.transactions, answer.results_by_transaction, strict=True)
        ]
    topics = {topic.name: 2 for _, _, results in received for topic in results}
    states = [
        state
        for name, owner, results in received
        for state in state_that_answers(next(iter(_codes(results).values())), name, owner, _codes(results))
    ]
    return broker_that_knows(kafka_like(topics), states)


def _is_told_to_wait(name: str) -> bool:
    return CONCURRENT in _codes(answer_of(golden(name)).results_by_topic_v3_and_below).values()


@pytest.mark.parametrize("name", [name for name in REQUESTS if not _is_told_to_wait(name)])
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    assert serve(_as_it_was(request), request) == kafka_answer(request)


@pytest.mark.parametrize("version", range(6))
def test_partitions_are_added(version: int) -> None:
    broker = BrokerInMemory(topics={"a": 2, "b": 1})
    ids = init_producer(broker)
    partitions = [("a", 1), ("b", 0), ("a", 0)]

    assert ask(broker, ids, partitions, version=version) == dict.fromkeys(partitions, 0)

    state = coordinator_of(broker).get("payments")
    assert state is not None
    assert state.state.kafka_name == "Ongoing"
    assert state.partitions == frozenset(partitions)
    assert state.client_transaction_version == (2 if version >= 4 else 0)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("unknown", [("nonsense", 0), ("a", 2), ("a", -1)])
def test_unknown_partition_fails_the_whole_request(version: int, unknown: tuple[str, int]) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)

    assert ask(broker, ids, [("a", 0), unknown, ("a", 1)], version=version) == {("a", 0): 55, unknown: 3, ("a", 1): 55}

    state = coordinator_of(broker).get("payments")
    assert state is not None
    assert not state.partitions


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("internal", ["__transaction_state", "__consumer_offsets", "__share_group_state"])  # the last two are not there
def test_internal_topics_are_refused(version: int, internal: str) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    ids = init_producer(broker)
    requests = [("a", 0), (internal, 0), ("nonsense", 0)]

    codes = ask(broker, ids, requests, version=version)

    result = 29 if version < 4 else 55 if internal == "__transaction_state" else 3  # brokers may
    assert codes == {("a", 0): 55, (internal, 0): result, ("nonsense", 0): 3}
    state = coordinator_of(broker).get("payments")
    assert state is not None
    assert not state.partitions


@pytest.mark.parametrize(("version", "error_code"), [(0, 47), (1, 47), (2, 90), (3, 90), (4, 90), (5, 90)])
def test_a_zombie(version: int, error_code: int) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    zombie = init_producer(broker)
    init_producer(broker)
    assert ask(broker, zombie, [("a", 0), ("a", 1)], version=version) == {("a", 0): error_code, ("a", 1): error_code}


@pytest.mark.parametrize("version", [4, 5])
def test_verify_only_adds_no_partitions(version: int) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    ask(broker, ids, [("a", 0)], version=3)
    both = [("a", 0), ("a", 1)]

    codes = [ask(broker, ids, both, version=version, verify_only=True) for _ in range(2)]

    assert codes == [{("a", 0): 0, ("a", 1): 120}] * 2
    assert ask(broker, ids._replace(producer_epoch=7), both, version=version, verify_only=True) == dict.fromkeys(both, 90)
    assert ask(broker, ids._replace(producer_id=7), both, version=version, verify_only=True) == dict.fromkeys(both, 49)


@pytest.mark.parametrize("version", [4, 5])
def test_each_transaction_has_its_own_result(version: int) -> None:
    broker = BrokerInMemory(topics={"a": 1})
    first, second = init_producer(broker, "first"), init_producer(broker, "second")

    def of(name: str, ids: ProducerIdAndEpoch, topic: str = "a") -> schema.Transaction:
        topics = [schema.Topic(name=topic, partitions=[0])]
        return schema.Transaction(transactional_id=name, producer_id=ids.producer_id, producer_epoch=ids.producer_epoch, topics=topics)

    request = schema.Request(transactions=[of("first", first), of("second", first), of("second", second, "b"), of("second", second)])
    answer = broker.ask(request, version)

    assert answer.error_code == 0
    assert [(each.transactional_id, *_codes(each.topic_results).values()) for each in answer.results_by_transaction] == [
        ("first", 0),
        ("second", 49),
        ("second", 3),
        ("second", 0),
    ]
    assert broker.ask(schema.Request(transactions=[]), version) == schema.Response()


@pytest.mark.parametrize("version", range(6))
def test_without_a_coordinator(version: int) -> None:
    assert ask(BrokerInMemory(topics={"a": 1}), ProducerIdAndEpoch(0, 0), [("a", 0)], version=version) == {("a", 0): 16}


@pytest.mark.parametrize("version", range(6))
def test_internal_error_is_returned(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = BrokerInMemory(topics={"a": 2})
    ids = init_producer(broker)
    monkeypatch.setattr(coordinator_of(broker), "add_partitions", None)
    if version < 4:
        assert ask(broker, ids, [("a", 1), ("a", 0)], version=version) == {("a", 0): -1, ("a", 1): -1}
    else:
        topics = [schema.Topic(name="a", partitions=[0])]
        transaction = schema.Transaction(transactional_id="payments", producer_id=0, producer_epoch=0, topics=topics)
        assert broker.ask(schema.Request(transactions=[transaction]), version) == schema.Response(error_code=-1)
