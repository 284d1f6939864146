"""ListPartitionReassignments: golden frames of real clients, answered as by Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from minibroker.schemas import k46_list_partition_reassignments as schema
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answer, kafka_like, serve

STEM = "k46_list_partition_reassignments"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")


def ask(broker: BrokerInMemory, topics: dict[str, list[int]] | None) -> dict[str, list[schema.PartitionResult]]:
    requested_topic = None if topics is None else [schema.Topic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    answer = broker.ask(schema.Request(topics=requested_topic))
    assert (answer.error_code, answer.error_message) == (0, None)
    return {topic.name: topic.partitions for topic in answer.topics}


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    broker = kafka_like(topics={"golden-grouped": 2, "java-groups": 1, "kafka-python-groups": 1})
    assert serve(broker, golden(name)) == kafka_answer(golden(name))


def test_reassignment_started_by_another_kafka_is_listed() -> None:
    broker = BrokerInMemory(topics={"orders": 2, "other": 1})
    topic_id = broker.cluster.topics["orders"].topic_id
    change = PartitionChangeRecord(partition_id=1, topic_id=topic_id, replicas=[1, 2], adding_replicas=[2], removing_replicas=[1])
    broker.cluster.image.apply(change)
    moved = {"orders": [schema.PartitionResult(partition_index=1, replicas=[1, 2], adding_replicas=[2], removing_replicas=[1])]}
    assert ask(broker, None) == moved
    assert ask(broker, {"orders": [0, 1, 2, -1], "other": [0], "absent": [0]}) == moved
    assert ask(broker, {"orders": [0], "other": [0]}) == ask(broker, {}) == {}
