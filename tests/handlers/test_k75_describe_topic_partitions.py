"""DescribeTopicPartitions: the answers of Apache Kafka, and paging that meets every partition once."""

from __future__ import annotations

import pytest

from minibroker.errors import InvalidTopicException
from minibroker.schemas import k75_describe_topic_partitions as schema
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k75_describe_topic_partitions") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k75_describe_topic_partitions") == {0}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 2000])
def test_pages_hold_every_partition_once(limit: int) -> None:
    topics = {"a": 3, "b": 1, "c": 2}
    broker = BrokerInMemory(topics=topics)
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        page = broker.ask(schema.Request(topics=[], response_partition_limit=limit, cursor=cursor))
        found = [(topic.name, partition.partition_index) for topic in page.topics for partition in topic.partitions]
        assert len(found) <= limit
        seen += found
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [(name, index) for name, count in topics.items() for index in range(count)]


def test_a_name_that_no_topic_may_have() -> None:
    # Apache Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR.
    (answer,) = BrokerInMemory().ask(schema.Request(topics=[schema.Topic(name="a/b")])).topics
    assert (answer.name, answer.error_code) == ("a/b", InvalidTopicException.code)
