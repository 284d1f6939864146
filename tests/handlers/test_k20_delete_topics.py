"""DeleteTopics: golden frames of real clients; codes and messages as Apache Kafka 4.3.1 gave them to the same requests (raw frames, one
KRaft node, 2026-11-21)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from uuid import UUID

import pytest

from minibroker.errors import KafkaStorageError, UnknownTopicId, UnknownTopicOrPartition
from minibroker.schemas import k01_fetch
from minibroker.schemas import k20_delete_topics as schema
from minibroker.wire.schema import NIL_UUID
from tests.golden import golden
from tests.handlers.kafka_answers import differences
from tests.support.broker_in_memory import BrokerInMemory, records
from tests.support.faulty_files import FaultyFiles
from tests.support.golden_exchange import answer_of, kafka_answer, kafka_like, serve, topic_ids

ABSENT_ID = UUID(int=77)
UNKNOWN = "This server does not host this topic-partition."


def by_name(name: str | None) -> schema.Topic:
    return schema.Topic(name=name, topic_id=NIL_UUID)


def by_id(topic_id: UUID) -> schema.Topic:
    return schema.Topic(name=None, topic_id=topic_id)


def ask(broker: BrokerInMemory, *topics: schema.Topic) -> list[schema.TopicResult]:
    """Version 6."""
    answer: schema.Response = broker.ask(schema.Request(topics=list(topics), timeout_ms=1000))
    return list(answer.responses)


@pytest.mark.parametrize(
    "name",
    [
        "k20_delete_topics_v6_request_java_4.3.1",
        "k20_delete_topics_v6_request_kafka_python_3.0.12",
        "k20_delete_topics_v4_request_librdkafka_2.16.1",
        "k20_delete_topics_v3_request_aiokafka_0.14.0",
    ],
)
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(name)
    (expected,) = answer_of(request).responses
    broker = kafka_like()
    topic_ids(monkeypatch, [expected.topic_id])
    broker.cluster.create_topic(expected.name, partition_count=1)

    assert serve(broker, request) == kafka_answer(request)
    assert expected.name not in broker.cluster.topics


@pytest.mark.parametrize("version", range(1, 7))
def test_franz_go_gets_kafka_answers_in_every_version(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    request = golden(f"k20_delete_topics_v{version}_request_franz_go_1.22.2")
    expected = answer_of(request).responses
    present = [result for result in expected if result.error_code == 0]
    broker = kafka_like()
    if version >= 6:
        topic_ids(monkeypatch, [result.topic_id for result in present])
    for result in present:
        broker.cluster.create_topic(result.name, partition_count=1)

    answer = broker.ask(request.decode(), version)

    def in_order(result: schema.TopicResult) -> str:
        return result.name or ""

    assert sorted(answer.responses, key=in_order) == sorted(expected, key=in_order)  # Kafka shuffles its answers
    assert not broker.cluster.topics


def test_deleted_topic_can_be_recreated_immediately() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 1, records(10))
    old_id = broker.cluster.topic("orders").topic_id

    assert ask(broker, by_name("orders")) == [schema.TopicResult(name="orders", topic_id=old_id, error_code=0)]

    again = broker.cluster.create_topic("orders", partition_count=2)
    assert again.topic_id != old_id
    assert [partition.log.log_end_offset for partition in again.partitions] == [0, 0]
    assert set(broker.restart().cluster.topics) == {"orders"}


def test_waiting_fetch_is_answered_when_its_topic_is_deleted() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    topic_id = broker.cluster.topic("orders").topic_id
    partition = k01_fetch.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    fetch = k01_fetch.Request(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1000, topics=[k01_fetch.Topic(topic_id=topic_id, partitions=[partition])]
    )
    waiting = broker.begin(fetch)
    assert not waiting.is_done

    ask(broker, by_id(topic_id))
    broker.clock.advance(0)  # the end of the loop's turn

    assert waiting.is_done


Case = tuple[Callable[[UUID], list[schema.Topic]], list[tuple[str | None, bool, int, str | None]]]

REFUSALS: dict[str, Case] = {
    "unknown name": (lambda _: [by_name("nope")], [("nope", False, 3, UNKNOWN)]),
    "empty name": (lambda _: [by_name("")], [("", False, 3, UNKNOWN)]),
    "name of no topic": (lambda _: [by_name("a/b")], [("a/b", False, 3, UNKNOWN)]),
    "metadata log": (lambda _: [by_name("__cluster_metadata")], [("__cluster_metadata", False, 3, UNKNOWN)]),
    "neither": (lambda _: [by_name(None)], [(None, False, 42, "Neither topic name nor id were specified.")]),
    "both": (
        lambda own: [schema.Topic(name="orders", topic_id=own)],
        [("orders", True, 42, "You may not specify both topic name and topic id.")],
    ),
    "name twice": (lambda _: [by_name("orders")] * 2, [("orders", False, 42, "Duplicate topic name.")]),
    "id twice": (lambda own: [by_id(own)] * 2, [(None, True, 42, "Duplicate topic id.")]),
    "name after id": (
        lambda own: [by_id(own), by_name("orders")],
        [("orders", True, 42, "The provided topic name maps to an ID that was already supplied.")],
    ),
    "name before id": (
        lambda own: [by_name("orders"), by_id(own)],
        [("orders", True, 42, "The provided topic name maps to an ID that was already supplied.")],
    ),
    "nothing": (lambda _: [], []),
}


@pytest.mark.parametrize(("asked", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(asked: Callable[[UUID], list[schema.Topic]], expected: list[tuple[str | None, bool, int, str | None]]) -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    own = broker.cluster.topic("orders").topic_id

    answer = ask(broker, *asked(own))

    assert [(result.name, result.topic_id == own, result.error_code, result.error_message) for result in answer] == expected
    assert "orders" in broker.cluster.topics


def test_unknown_id() -> None:
    broker = BrokerInMemory()
    assert ask(broker, by_id(ABSENT_ID)) == [
        schema.TopicResult(name=None, topic_id=ABSENT_ID, error_code=100, error_message="This server does not host this topic ID.")
    ]
    assert [result.error_message for result in ask(broker, by_id(ABSENT_ID), by_id(ABSENT_ID))] == ["Duplicate topic id."]


def test_failing_topic_does_not_affect_others() -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 1, "c": 1})
    answer = ask(broker, by_name("a"), by_name("nope"), by_id(broker.cluster.topic("b").topic_id), by_name("c"), by_name("c"))
    assert [(result.name, result.error_code) for result in answer] == [("a", 0), ("nope", 3), ("b", 0), ("c", 42)]
    assert set(broker.cluster.topics) == {"c"}


def test_stale_references_to_a_deleted_topic_fail() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    old = broker.cluster.topic("orders")
    ask(broker, by_name("orders"))
    broker.cluster.create_topic("orders")
    with pytest.raises(UnknownTopicOrPartition):
        _ = old.partitions[0].log
    with pytest.raises(UnknownTopicId):
        broker.cluster.partition_by_id(old.topic_id, 0)


def test_files_are_removed_after_the_delay() -> None:
    broker = BrokerInMemory(topics={"orders": 1, "kept": 1})
    ask(broker, by_name("orders"))
    assert not (broker.folder / "orders-0").exists()
    assert list(broker.folder.glob("orders-0.*-delete"))

    broker.clock.advance(60_000)

    assert not list(broker.folder.glob("orders*"))
    assert (broker.folder / "kept-0").exists()


def test_internal_topics_may_be_deleted() -> None:
    broker = BrokerInMemory(topics={"__consumer_offsets": 1})
    assert [result.error_code for result in ask(broker, by_name("__consumer_offsets"))] == [0]


@pytest.mark.parametrize(("version", "error_code"), [(1, 42), (2, 42), (3, 73), (4, 73), (5, 73), (6, 73)])
def test_deletion_disabled(version: int, error_code: int) -> None:
    broker = BrokerInMemory(topics={"a": 1, "b": 1}, config={"delete.topic.enable": "false"})
    b_id = broker.cluster.topic("b").topic_id
    request = schema.Request(topics=[by_name("a"), by_id(b_id)], topic_names=["a", "nope"], timeout_ms=1000)

    answer = broker.ask(request, version)

    requests = [("a", NIL_UUID), (None, b_id)] if version >= 6 else [("a", NIL_UUID), ("nope", NIL_UUID)]
    assert [(result.name, result.topic_id) for result in answer.responses] == requests
    assert {result.error_code for result in answer.responses} == {error_code}
    assert set(broker.cluster.topics) == {"a", "b"}


def test_scenario_matches_apache_kafka() -> None:
    assert differences("k20_delete_topics") == []


def test_many_topics_cost_one_fsync() -> None:
    """And one for each log directory, so that the names are gone for good."""
    files = FaultyFiles()
    broker = BrokerInMemory(topics={f"orders-{number}": 1 for number in range(50)}, files=files)
    before = dict(files.counts)

    results = ask(broker, *(by_name(f"orders-{number}") for number in range(1, 50)), by_name("absent"))

    assert [result.error_code for result in results] == [0] * 49 + [UnknownTopicOrPartition.code]
    assert {name: files.counts[name] - before[name] for name in ("sync", "sync_directory")} == {"sync": 1, "sync_directory": 1}
    assert set(broker.cluster.topics) == {"orders-0"}
    assert set(broker.restart(clean=False).cluster.topics) == {"orders-0"}


def test_disk_failure_deletes_no_topic() -> None:
    files = FaultyFiles()
    broker = BrokerInMemory(topics={"orders": 1, "clicks": 1}, files=files)
    files.fail("sync", errno.EIO, path_part="__cluster_metadata")

    results = ask(broker, by_name("orders"), by_name("absent"), by_name("clicks"))

    assert [result.error_code for result in results] == [KafkaStorageError.code, UnknownTopicOrPartition.code, KafkaStorageError.code]
    assert broker.append("orders", 0, records(1)).base_offset == 0
    assert set(broker.restart(clean=False).cluster.topics) == {"orders", "clicks"}
