"""CreatePartitions: the answers of Apache Kafka, and partitions that are really there."""

from __future__ import annotations

from minibroker.schemas import k37_create_partitions as schema
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory, records


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k37_create_partitions") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k37_create_partitions") == {0, 1, 2, 3}


def test_new_partitions_are_ready_and_outlive_a_restart() -> None:
    broker = BrokerInMemory(topics={"orders": 1})
    broker.append("orders", 0, records(3))

    topic = schema.Topic(name="orders", count=3, assignments=None)
    broker.ask(schema.Request(topics=[topic], timeout_ms=0, validate_only=False))
    broker.append("orders", 2, records(2))
    broker = broker.restart()

    assert [partition.log.log_end_offset for partition in broker.cluster.topics["orders"].partitions] == [3, 0, 2]
