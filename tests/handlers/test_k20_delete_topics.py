"""DeleteTopics: the answers of Apache Kafka, and a name that is free at once."""

from __future__ import annotations

import pytest

from minibroker.errors import InvalidRequest, TopicDeletionDisabled, UnknownTopicId, UnknownTopicOrPartition
from minibroker.schemas import k20_delete_topics as schema
from minibroker.wire.schema import NIL_UUID
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory, records


def by_name(*names: str) -> schema.Request:
    topics = [schema.Topic(name=name, topic_id=NIL_UUID) for name in names]
    return schema.Request(topics=topics, topic_names=list(names), timeout_ms=0)


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k20_delete_topics") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k20_delete_topics") == set(range(1, 7))


def test_a_recreated_topic_is_another_one() -> None:
    broker = BrokerInMemory(topics={"orders": 2})
    broker.append("orders", 0, records(10))
    old = broker.cluster.topics["orders"]

    assert broker.ask(by_name("orders"), 5).responses[0].error_code == 0
    new = broker.cluster.create_topic("orders")

    assert new.topic_id != old.topic_id
    assert [partition.log.log_end_offset for partition in new.partitions] == [0]
    with pytest.raises(UnknownTopicOrPartition):
        _ = old.partitions[0].log
    with pytest.raises(UnknownTopicId):
        broker.cluster.partition_by_id(old.topic_id, 0)


def test_files_go_after_the_delay() -> None:
    broker = BrokerInMemory(topics={"orders": 1, "kept": 1})
    broker.ask(by_name("orders"))
    assert not (broker.folder / "orders-0").exists()
    assert list(broker.folder.glob("orders-0.*-delete"))

    broker.clock.advance(60_000)

    assert not list(broker.folder.glob("orders*"))
    assert (broker.folder / "kept-0").exists()


def test_who_waits_for_the_topic_is_woken() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    woken: list[bool] = []
    broker.cluster.partition("orders", 0).subscribe(lambda: woken.append(True))

    broker.ask(by_name("orders"))

    assert woken == [True]


@pytest.mark.parametrize(("version", "error"), [(2, InvalidRequest), (3, TopicDeletionDisabled), (6, TopicDeletionDisabled)])
def test_deletion_can_be_forbidden(version: int, error: type[Exception]) -> None:
    broker = BrokerInMemory(topics={"orders": 1}, config={"delete.topic.enable": "false"})

    (answer,) = broker.ask(by_name("orders"), version).responses

    assert (answer.name, answer.error_code) == ("orders", getattr(error, "code", None))
    assert "orders" in broker.cluster.topics
