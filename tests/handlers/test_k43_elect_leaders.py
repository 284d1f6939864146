"""ElectLeaders: golden frames of real clients; answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

import pytest

from minibroker.errors import KafkaStorageError
from minibroker.schemas import k43_elect_leaders as schema
from minibroker.schemas.internal.topic_records import PartitionChangeRecord
from tests.golden import all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve

STEM = "k43_elect_leaders"
REQUESTS = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "request")
ALL_TOPICS = golden(f"{STEM}_v2_response_java_4.3.1_admin_tools").decode()
PREFERRED, UNCLEAN = 0, 1
NOT_NEEDED = (84, "Leader election not needed for topic partition.")
Outcome = dict[str, list[tuple[int, int, str | None]]]


def outcomes(answer: schema.Response) -> Outcome:
    return {
        each.topic: [(result.partition_id, result.error_code, result.error_message) for result in each.partition_result]
        for each in answer.replica_election_results
    }


def ask(broker: BrokerInMemory, kind: int, asked: dict[str, list[int]] | None, *, version: int = 2) -> tuple[int, Outcome]:
    topics = None if asked is None else [schema.Topic(topic=name, partitions=indexes) for name, indexes in asked.items()]
    answer = broker.ask(schema.Request(election_type=kind, topic_partitions=topics), version)
    return answer.error_code, outcomes(answer)


@pytest.mark.parametrize("name", REQUESTS)
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    request = golden(name)
    broker = kafka_like(topics={each.topic: 1 for each in ALL_TOPICS.replica_election_results})
    answer = serve(broker, request)
    assert answer in kafka_answers(request)
    assert (b"not needed" in answer) == (request.decode().topic_partitions is not None)


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_election_is_not_needed(kind: int, version: int) -> None:
    broker = BrokerInMemory(topics={"t": 2, "u": 1})
    end = broker.cluster.metadata.last_offset
    assert ask(broker, kind, {"t": [1, 1], "u": []}, version=version) == (0, {"t": [(1, *NOT_NEEDED), (1, *NOT_NEEDED)], "u": []})
    assert ask(broker, kind, None, version=version) == (0, {"t": [], "u": []})
    assert ask(broker, kind, {}, version=version) == (0, {})
    assert broker.cluster.metadata.last_offset == end


def test_unknown_topics_and_partitions() -> None:
    missing = {
        "t": [(1, 3, "No such partition as t-1"), (-1, 3, "No such partition as t--1")],
        "absent": [(0, 3, "No such topic as absent")],
    }
    assert ask(BrokerInMemory(topics={"t": 1}), UNCLEAN, {"t": [1, -1], "absent": [0]}) == (0, missing)


@pytest.mark.parametrize("kind", [2, -1])
def test_unknown_election_type(kind: int) -> None:
    message = f"Unknown election type {kind}"
    broker = BrokerInMemory(topics={"t": 1})
    assert ask(broker, kind, {"t": [0], "absent": [1]}) == (42, {"t": [(0, 42, message)], "absent": [(1, 42, message)]})
    assert ask(broker, kind, None) == (42, {})


@pytest.mark.parametrize(("kind", "code"), [(PREFERRED, 80), (UNCLEAN, 83)])
def test_offline_partition_has_no_leader(kind: int, code: int) -> None:
    broker = BrokerInMemory(topics={"t": 2})
    broker.cluster.partition("t", 1).take_offline(KafkaStorageError())
    for requested in ({"t": [1]}, None):
        error_code, found = ask(broker, kind, requested)
        assert (error_code, [each[:2] for each in found["t"]]) == (0, [(1, code)])


def test_preferred_leader_is_not_available() -> None:
    broker = BrokerInMemory(topics={"t": 1})
    broker.cluster.image.apply(PartitionChangeRecord(partition_id=0, topic_id=broker.cluster.topics["t"].topic_id, replicas=[2, 1]))
    assert ask(broker, PREFERRED, None)[1]["t"][0][:2] == (0, 80)
    assert ask(broker, UNCLEAN, None) == (0, {"t": []})
