"""AlterPartitionReassignments: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node,
2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.schemas import k45_alter_partition_reassignments as schema
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answer, kafka_like, serve

STEM = "k45_alter_partition_reassignments"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")
Outcome = tuple[int, int, str | None]  #: partition, error code, message


def ask(broker: BrokerInMemory, topic: str, *partitions: tuple[int, list[int] | None], allow: bool = True) -> list[Outcome]:
    requested_topic = schema.Topic(
        name=topic, partitions=[schema.Partition(partition_index=index, replicas=nodes) for index, nodes in partitions]
    )
    answer = broker.ask(schema.Request(topics=[requested_topic], allow_replication_factor_change=allow))
    assert (answer.error_code, answer.error_message, answer.allow_replication_factor_change) == (0, None, allow)
    assert [each.name for each in answer.responses] == [topic]
    return [(each.partition_index, each.error_code, each.error_message) for each in answer.responses[0].partitions]


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    broker = kafka_like(topics={"golden-grouped": 2, "java-groups": 1, "kafka-python-groups": 1})
    assert serve(broker, golden(name)) == kafka_answer(golden(name))


@pytest.mark.parametrize("allow", [True, False])
def test_only_this_node_may_be_a_replica(allow: bool) -> None:
    broker = BrokerInMemory(topics={"t": 2})
    end = broker.cluster.metadata.last_offset
    empty, other = "includes an empty replica list.", "includes broker 2, but no such broker is registered."
    for index, replicas, message in (
        (0, [], empty),
        (1, [2], other),
        (0, [1, 2], other),
        (0, [1, 1], "includes the broker 1 more than once."),
    ):
        assert ask(broker, "t", (index, replicas), allow=allow) == [(index, 39, f"The manual partition assignment {message}")]
    assert ask(broker, "t", (0, [1]), (0, [1]), (1, None), allow=allow) == [(0, 0, None), (0, 0, None), (1, 85, None)]
    assert broker.cluster.metadata.last_offset == end


def test_unknown_topics_and_partitions() -> None:
    broker = BrokerInMemory(topics={"t": 2})
    assert ask(broker, "t", (-1, [1]), (2, None)) == [(-1, 3, "Unable to find partition t:-1."), (2, 3, "Unable to find partition t:2.")]
    assert ask(broker, "absent", (0, None)) == [(0, 3, "Unable to find a topic named absent.")]


def test_empty_request() -> None:
    answer = BrokerInMemory().ask(schema.Request(topics=[]))
    assert (answer.error_code, answer.error_message, answer.responses) == (0, "", [])


@pytest.mark.parametrize("replicas", [[1], None])
def test_reassignment_started_by_another_kafka_is_kept(replicas: list[int] | None) -> None:
    broker = BrokerInMemory(topics={"t": 1})
    change = PartitionChangeRecord(partition_id=0, topic_id=broker.cluster.topics["t"].topic_id, replicas=[1, 2], adding_replicas=[2])
    broker.cluster.image.apply(change)
    assert ask(broker, "t", (0, replicas)) == [(0, 39, "t-0 has its replicas on nodes [1, 2]: one node alone cannot change that")]
