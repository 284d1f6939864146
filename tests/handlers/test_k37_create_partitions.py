"""CreatePartitions: golden frames of real clients; codes and messages as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one
KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k37_create_partitions as schema
from tests.golden import golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve

Told = list[tuple[str, int, str | None]]  #: topic, error code, message

CLIENTS = ["v1_request_aiokafka_0.14.0", "v2_request_librdkafka_2.16.1", "v3_request_java_4.3.1", "v3_request_kafka_python_3.0.12"]


def topic(name: str, count: int, assignments: list[list[int]] | None = None) -> schema.Topic:
    lists = None if assignments is None else [schema.Assignment(broker_ids=ids) for ids in assignments]
    return schema.Topic(name=name, count=count, assignments=lists)


def ask(broker: BrokerInMemory, *topics: schema.Topic, validate_only: bool = False, version: int = 3) -> Told:
    answer = broker.ask(schema.Request(topics=list(topics), timeout_ms=1000, validate_only=validate_only), version)
    return [(result.name, result.error_code, result.error_message) for result in answer.results]


def count_of(broker: BrokerInMemory, name: str) -> int:
    return len(broker.cluster.topic(name).partitions)


@pytest.mark.parametrize("client", CLIENTS)
def test_golden_requests_get_kafka_bytes(client: str) -> None:
    request = golden(f"k37_create_partitions_{client}")
    (requested,) = request.decode().topics
    broker = kafka_like(topics={requested.name: 1})

    assert serve(broker, request) == kafka_answer(request)
    assert count_of(broker, requested.name) == requested.count


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_every_version_of_franz_go(version: int) -> None:
    request = golden(f"k37_create_partitions_v{version}_request_franz_go_1.22.2")
    broker = kafka_like(topics={"golden-wide": 1})

    answer = broker.ask(request.decode(), version)

    assert sorted(answer.results, key=repr) == sorted(answer_of(request).results, key=repr)  # Kafka's are in no order


def test_new_partitions_accept_records_and_old_ones_keep_theirs() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(10))

    assert ask(broker, topic("orders", 3)) == [("orders", 0, None)]
    broker.append("orders", 2, records(4))

    for is_restarted in (False, True):
        topics = (broker.restart() if is_restarted else broker).cluster.topics
        assert [partition.log.log_end_offset for partition in topics["orders"].partitions] == [10, 0, 4]


def no_broker(broker_id: int) -> str:
    return f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."


REFUSED: dict[str, tuple[schema.Topic, int, str | None]] = {
    "same": (topic("h", 3), 37, "Topic already has 3 partition(s)."),
    "fewer": (topic("h", 2), 37, "The topic h currently has 3 partition(s); 2 would not be an increase."),
    "none": (topic("h", 0), 37, "The topic h currently has 3 partition(s); 0 would not be an increase."),
    "negative": (topic("h", -1), 37, "The topic h currently has 3 partition(s); -1 would not be an increase."),
    "unknown": (topic("nope", 3), 3, None),
    "unknown to none": (topic("nope", 0), 3, None),
    "no name": (topic("", 3), 3, None),
    "metadata log": (topic("__cluster_metadata", 3), 3, None),
    "too few assignments": (
        topic("h", 5, [[1]]), 39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    ),
    "too many assignments": (
        topic("h", 4, [[1], [1]]), 39, "Attempted to add 1 additional partition(s), but only 2 assignment(s) were specified."
    ),
    "no assignments": (topic("h", 4, []), 39, "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."),
    "no replicas": (topic("h", 4, [[]]), 39, "The manual partition assignment includes an empty replica list."),
    "other broker": (topic("h", 4, [[7]]), 39, no_broker(7)),
    "negative broker": (topic("h", 5, [[1], [-1]]), 39, no_broker(-1)),
    "also another broker": (topic("h", 4, [[1, 7]]), 39, no_broker(7)),
    "broker twice": (topic("h", 4, [[1, 1]]), 39, "The manual partition assignment includes the broker 1 more than once."),
    # Not Kafka's: it answers UNKNOWN_SERVER_ERROR, has 10,000 more partitions all the same, and nothing against it under validate_only.
    "very many": (topic("h", 10_004), 44, "Excessively large number of partitions per request."),
    "most of all": (topic("h", 2**31 - 1), 44, "Excessively large number of partitions per request."),
}  # fmt: skip


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("asked", "error_code", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(asked: schema.Topic, error_code: int, message: str | None, validate_only: bool) -> None:
    broker = kafka_like(topics={"h": 3})
    assert ask(broker, asked, validate_only=validate_only) == [(asked.name, error_code, message)]
    assert count_of(broker, "h") == 3


def test_assignments_to_this_broker() -> None:
    broker = kafka_like(topics={"h": 3})
    assert ask(broker, topic("h", 5, [[1], [1]])) == [("h", 0, None)]
    assert count_of(broker, "h") == 5


def test_validate_only_changes_nothing() -> None:
    broker = BrokerInMemory(topics={"h": 3})
    assert ask(broker, topic("h", 5), validate_only=True) == [("h", 0, None)]
    assert count_of(broker, "h") == count_of(broker.restart(), "h") == 3


@pytest.mark.parametrize("name", ["h", "nope"])
def test_duplicate_topic_is_answered_once(name: str) -> None:
    broker = BrokerInMemory(topics={"h": 3, "i": 2})
    assert ask(broker, topic(name, 5), topic(name, 6), topic("i", 3)) == [(name, 42, "Duplicate topic name."), ("i", 0, None)]
    assert (count_of(broker, "h"), count_of(broker, "i")) == (3, 3)


def test_failing_topic_does_not_affect_others() -> None:
    broker = BrokerInMemory(topics={"i": 2, "j": 2})
    response = ask(broker, topic("i", 1), topic("nope", 4), topic("j", 4), version=2)
    assert [result[:2] for result in response] == [("i", 37), ("nope", 3), ("j", 0)]
    assert (count_of(broker, "i"), count_of(broker, "j")) == (2, 4)


def test_empty_request_gets_an_empty_answer() -> None:
    assert ask(BrokerInMemory()) == []


def test_internal_topics_can_be_extended() -> None:
    broker = BrokerInMemory(topics={"__consumer_offsets": 1})
    assert ask(broker, topic("__consumer_offsets", 2)) == [("__consumer_offsets", 0, None)]


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k37_create_partitions") == []
