"""A thousand topics in one request: created, described and deleted in several turns of the loop, with few fsyncs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minibroker.handlers import k43_elect_leaders as k43
from minibroker.schemas import k03_metadata, k19_create_topics, k20_delete_topics, k43_elect_leaders
from minibroker.wire.schema import NIL_UUID
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.faulty_files import FaultyFiles
from tests.support.turns import shortest_slices, turns

COUNT = 1000
AT_ONCE = 500  #: topics that are made or deleted in one turn at the most
NAMES = [f"orders-{number}" for number in range(COUNT)]


def auto_create() -> Any:
    return k03_metadata.Request(topics=[k03_metadata.Topic(name=name) for name in NAMES], allow_auto_topic_creation=True)


def create() -> Any:
    topics = [k19_create_topics.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for name in NAMES]
    return k19_create_topics.Request(topics=topics, timeout_ms=1000, validate_only=False)


def delete() -> Any:
    return k20_delete_topics.Request(topics=[k20_delete_topics.Topic(name=name, topic_id=NIL_UUID) for name in NAMES], timeout_ms=1000)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture
def broker(files: FaultyFiles) -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(files=files)
    yield broker
    broker.cluster.close(clean=False)


@pytest.mark.parametrize("request_of", [auto_create, create])
def test_topics_are_created_in_steps(broker: BrokerInMemory, files: FaultyFiles, request_of: Any) -> None:
    shortest_slices(broker)
    syncs = files.counts["sync"]
    pending = broker.begin(request_of())
    before = len(broker.cluster.topics)
    assert before <= AT_ONCE // 2
    for _ in turns(broker, pending):
        now = len(broker.cluster.topics)
        assert now - before <= AT_ONCE // 2
        before = now
    assert [(topic.name, topic.error_code) for topic in pending.answer().topics] == [(name, 0) for name in NAMES]
    assert files.counts["sync"] - syncs <= 40
    assert set(broker.restart(clean=False).cluster.topics) == set(NAMES)


def test_topics_are_deleted_in_steps(broker: BrokerInMemory, files: FaultyFiles) -> None:
    broker.ask(create())
    shortest_slices(broker)
    syncs = files.counts["sync"]
    pending = broker.begin(delete())
    before = len(broker.cluster.topics)
    assert before >= COUNT - AT_ONCE
    for _ in turns(broker, pending):
        now = len(broker.cluster.topics)
        assert before - now <= AT_ONCE
        before = now
    assert [(topic.name, topic.error_code) for topic in pending.answer().responses] == [(name, 0) for name in NAMES]
    assert files.counts["sync"] - syncs <= 10
    assert not broker.cluster.topics


def test_topic_deleted_meanwhile_is_answered_as_created(broker: BrokerInMemory) -> None:
    """What a piece said stays true: another client's request comes between two pieces."""
    shortest_slices(broker)
    is_deleted = False
    pending = broker.begin(create())
    for _ in turns(broker, pending):
        if not is_deleted and "orders-0" in broker.cluster.topics:
            broker.cluster.delete_topic("orders-0")
            is_deleted = True
    assert {topic.error_code for topic in pending.answer().topics} == {0}
    assert set(broker.cluster.topics) == set(NAMES[1:])


def test_too_many_partitions_create_no_topic(broker: BrokerInMemory) -> None:
    topics = [k19_create_topics.Topic(name=name, num_partitions=11, replication_factor=1, assignments=[], configs=[]) for name in NAMES]
    answer = broker.ask(k19_create_topics.Request(topics=topics, timeout_ms=1000, validate_only=False))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, 44) for name in NAMES]
    assert not broker.cluster.topics


def test_all_topics_are_described_in_steps_and_in_order(broker: BrokerInMemory) -> None:
    names = [f"more-{number}" for number in range(1100)]
    broker.cluster.auto_create_topics(names)
    for version in (0, 1, 8, 13):
        request = k03_metadata.Request(topics=None if version else [], allow_auto_topic_creation=True)
        expected = broker.ask(k03_metadata.Request(topics=[k03_metadata.Topic(name=name) for name in names]), version)
        assert broker.ask(request, version) == expected
    shortest_slices(broker)
    pending = broker.begin(k03_metadata.Request(topics=None))
    broker.cluster.delete_topic("more-1099")
    broker.cluster.create_topic("late")
    assert sum(1 for _ in turns(broker, pending)) >= 10
    assert [topic.name for topic in pending.answer().topics] == names[:-1]


def test_leaders_of_all_topics_are_elected_in_steps(broker: BrokerInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.ask(create())
    shortest_slices(broker)
    outcomes: list[str] = []
    original = k43._outcome

    def outcome(ctx: Any, request: Any, topic: str, index: int) -> Any:
        outcomes.append(topic)
        return original(ctx, request, topic, index)

    monkeypatch.setattr(k43, "_outcome", outcome)
    pending = broker.begin(k43_elect_leaders.Request(election_type=0, topic_partitions=None, timeout_ms=1000))
    seen = len(outcomes)
    assert seen <= AT_ONCE // 100
    for number, _ in enumerate(turns(broker, pending)):
        assert len(outcomes) - seen <= AT_ONCE // 100
        seen = len(outcomes)
        if number == 10:
            broker.cluster.delete_topics([broker.cluster.topics[NAMES[-1]]])
    assert outcomes == NAMES[:-1]
    answer = pending.answer()
    assert answer.error_code == 0
    assert [(each.topic, each.partition_result) for each in answer.replica_election_results] == [(name, []) for name in NAMES[:-1]]
