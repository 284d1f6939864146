"""Thousands of partitions in one request: prepared in many turns of the loop, created in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minibroker.cluster.metadata.frame import STEP_RECORDS, run
from minibroker.cluster.metadata.metadata_image import partition_records
from minibroker.errors import NONE, InvalidPartitions, InvalidTopicException, TopicAlreadyExists, UnknownTopicOrPartition
from minibroker.records.record import encode_record
from minibroker.schemas import k19_create_topics as k19
from minibroker.schemas import k37_create_partitions as k37
from tests.support.broker_in_memory import BrokerInMemory, Pending
from tests.support.soak import times
from tests.support.turns import shortest_slices, turn, turns

COUNT = times(3_000, soak=6_000)


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"grown": 1})
    shortest_slices(broker)
    yield broker
    broker.cluster.close(clean=False)


def create(*topics: tuple[str, int]) -> Any:
    requested_topics = [
        k19.Topic(name=name, num_partitions=count, replication_factor=-1, assignments=[], configs=[]) for name, count in topics
    ]
    return k19.Request(topics=requested_topics, timeout_ms=1000, validate_only=False)


def grow(*topics: tuple[str, int]) -> Any:
    requested_topics = [k37.Topic(name=name, count=count, assignments=None) for name, count in topics]
    return k37.Request(topics=requested_topics, timeout_ms=1000, validate_only=False)


def partition_count(broker: BrokerInMemory, name: str) -> int:
    topic = broker.cluster.topics.get(name)
    return 0 if topic is None else len(topic.partitions)


def finish(broker: BrokerInMemory, pending: Pending) -> list[int]:
    """Error codes of the answer."""
    for _ in turns(broker, pending):
        pass
    answer = pending.answer()
    return [each.error_code for each in (answer.topics if isinstance(answer, k19.Response) else answer.results)]


@pytest.mark.parametrize(("request_of", "name"), [(create, "new"), (grow, "grown")])
def test_partitions_are_prepared_in_steps_and_created_atomically(
    broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch, request_of: Callable[..., Any], name: str
) -> None:
    work: list[int] = []  # partitions that this turn made or encoded records of

    def make(topic_id: Any, indexes: range, *others: Any) -> Any:
        work.append(len(indexes))
        return partition_records(topic_id, indexes, *others)

    def encode(*arguments: Any) -> None:
        work.append(1)
        encode_record(*arguments)

    monkeypatch.setattr("minibroker.cluster.cluster.partition_records", make)
    monkeypatch.setattr("minibroker.cluster.metadata.frame.encode_record", encode)
    before = partition_count(broker, name)
    pending = broker.begin(request_of((name, before + COUNT)))
    done, counts = sum(work), {partition_count(broker, name)}
    assert done <= 2 * STEP_RECORDS
    for _ in turns(broker, pending):
        assert sum(work) - done <= 2 * STEP_RECORDS
        done = sum(work)
        counts.add(partition_count(broker, name))
    assert done >= 2 * COUNT
    assert counts == {before, before + COUNT}
    assert finish(broker, pending) == [NONE]
    again = broker.restart(clean=False)
    assert partition_count(again, name) == before + COUNT


def test_topics_of_one_slice_are_created_together(broker: BrokerInMemory) -> None:
    """Those of one piece; each is larger than a step."""
    pending = broker.begin(create(("a", 70), ("b", 70)))
    assert finish(broker, pending) == [NONE, NONE]
    assert (partition_count(broker, "a"), partition_count(broker, "b")) == (70, 70)


def test_each_step_grows_one_topic(broker: BrokerInMemory) -> None:
    names = [f"t-{number}" for number in range(50)]
    broker.cluster.auto_create_topics(names)
    pending = broker.begin(grow(*((name, 101) for name in names)))
    before = sum(partition_count(broker, name) for name in names)
    assert before <= len(names) + 100
    for _ in turns(broker, pending):
        now = sum(partition_count(broker, name) for name in names)
        assert now - before <= 100
        before = now
    assert finish(broker, pending) == [NONE] * len(names)


@pytest.mark.parametrize("other", ["new.topic", "new_topic"])
def test_topic_name_taken_meanwhile(broker: BrokerInMemory, other: str) -> None:
    pending = broker.begin(create(("new.topic", COUNT)))
    turn(broker)
    topic = broker.cluster.create_topic(other, partition_count=2)
    (code,) = finish(broker, pending)
    assert code == (TopicAlreadyExists if other == "new.topic" else InvalidTopicException).code
    assert broker.cluster.topics[other] is topic
    assert len(topic.partitions) == 2
    assert "new.topic" in broker.cluster.topics or other == "new_topic"


def test_topic_grown_meanwhile(broker: BrokerInMemory) -> None:
    pending = broker.begin(grow(("grown", COUNT)))
    turn(broker)
    run(broker.cluster.create_partitions_in_steps("grown", 5))
    assert finish(broker, pending) == [NONE]
    assert [each.index for each in broker.cluster.topics["grown"].partitions] == list(range(COUNT))
    pending = broker.begin(grow(("grown", 2 * COUNT)))
    turn(broker)
    run(broker.cluster.create_partitions_in_steps("grown", 2 * COUNT))
    assert finish(broker, pending) == [InvalidPartitions.code]
    assert partition_count(broker, "grown") == 2 * COUNT


def test_topic_deleted_meanwhile(broker: BrokerInMemory) -> None:
    pending = broker.begin(grow(("grown", COUNT)))
    turn(broker)
    broker.cluster.delete_topic("grown")
    assert finish(broker, pending) == [UnknownTopicOrPartition.code]
    broker.cluster.create_topic("grown", partition_count=1)
    pending = broker.begin(grow(("grown", COUNT)))
    turn(broker)
    broker.cluster.delete_topic("grown")
    topic = broker.cluster.create_topic("grown", partition_count=1)
    assert finish(broker, pending) == [NONE]
    assert broker.cluster.topics["grown"] is topic
    assert {each.topic_id for each in topic.partitions} == {topic.topic_id}
    assert len(topic.partitions) == COUNT


def test_closed_connection_cancels_the_creation(broker: BrokerInMemory) -> None:
    pending = broker.begin(create(("new", COUNT)))
    turn(broker)
    pending.in_flight.cancel()
    while len(broker.services.slices):
        turn(broker)
    assert "new" not in broker.cluster.topics
