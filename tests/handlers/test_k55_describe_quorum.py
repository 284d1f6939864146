"""DescribeQuorum: golden frames of real clients, and answers as Apache Kafka 4.3.1 gave them (raw frames, one KRaft node, 2026-11-21)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.cluster.metadata.quorum import Quorum, quorum_of
from minibroker.schemas import k55_describe_quorum as schema
from minibroker.schemas.internal.control_records import VoterEndpoint
from minibroker.wire.schema import NIL_UUID, replace
from tests.golden import Golden, all_golden, golden
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve

STEM = "k55_describe_quorum"
METADATA = "__cluster_metadata"
RESPONSES = sorted(name for name, frame in all_golden().items() if frame.stem == STEM and frame.direction == "response")


def like(monkeypatch: pytest.MonkeyPatch, response: Golden) -> BrokerInMemory:
    """A broker whose metadata log stands where Kafka's stood when it answered, at that time and with its voter."""
    partition = response.decode().topics[0].partitions[0]
    broker = kafka_like()
    if partition.error_code:
        return broker
    voter = partition.current_voters[0]
    log = broker.cluster.metadata.log
    log.log_end_offset, log.leader_epoch = partition.high_watermark, partition.leader_epoch
    quorum = quorum_of(1, voter.replica_directory_id)
    assert quorum.voters is not None
    endpoints = [
        VoterEndpoint(name=each.name, host=each.host, port=each.port) for node in response.decode().nodes for each in node.listeners
    ]
    log.quorum = quorum._replace(voters=replace(quorum.voters, voters=[replace(quorum.voters.voters[0], endpoints=endpoints)]))
    monkeypatch.setattr(ManualClock, "now_ms", lambda _clock: voter.last_fetch_timestamp)
    return broker


def ask(broker: BrokerInMemory, *topics: tuple[str, list[int]], version: int = 2) -> Any:
    partitions = [
        schema.Topic(topic_name=name, partitions=[schema.Partition(partition_index=each) for each in indexes]) for name, indexes in topics
    ]
    return broker.ask(schema.Request(topics=partitions), version)


@pytest.mark.parametrize("name", RESPONSES)
def test_golden_requests_get_kafka_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    response = golden(name)  # the longer of the two answers is the one to the longer request here
    request = golden(name.replace("_response_", "_request_"))
    answer = serve(like(monkeypatch, response), request)
    assert answer == response.data[:4] + request.frame[4:8] + response.data[8:]
    assert answer in kafka_answers(request)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_this_node_is_the_up_to_date_leader(version: int) -> None:
    broker = BrokerInMemory(topics={"orders": 3})
    (partition,) = ask(broker, (METADATA, [0]), version=version).topics[0].partitions
    (voter,) = partition.current_voters
    assert (partition.error_code, partition.leader_id, partition.leader_epoch, partition.observers) == (0, 1, 1, [])
    assert partition.high_watermark == voter.log_end_offset == broker.cluster.metadata.last_offset + 1
    assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == (broker.clock.now_ms() if version else -1)


def test_epoch_rises_with_the_first_record_after_a_restart() -> None:
    broker = BrokerInMemory().restart()
    assert ask(broker, (METADATA, [0])).topics[0].partitions[0].leader_epoch == 1
    broker.cluster.create_topic("orders")
    assert ask(broker, (METADATA, [0])).topics[0].partitions[0].leader_epoch == 2


def test_voter_has_the_directory_id() -> None:
    broker = BrokerInMemory()
    answer = ask(broker, (METADATA, [0]))
    assert answer.topics[0].partitions[0].current_voters[0].replica_directory_id == broker.cluster.log_directories[0].directory_id
    assert [(node.node_id, [(each.name, each.port) for each in node.listeners]) for node in answer.nodes] == [(1, [("CONTROLLER", 9093)])]


def test_static_voters_have_no_directory_id() -> None:
    broker = BrokerInMemory()
    broker.cluster.metadata.log.quorum = Quorum(leader_voters=frozenset({1}))
    answer = ask(broker, (METADATA, [0]))
    assert answer.topics[0].partitions[0].current_voters[0].replica_directory_id == NIL_UUID
    assert answer.nodes == [schema.Node(node_id=1, listeners=[])]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "topics",
    [
        [("orders", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0, 0])],
        [(METADATA, [0]), ("orders", [0])],
        [(METADATA, [])],
        [],
    ],
)
def test_other_topics_are_unknown(topics: list[tuple[str, list[int]]], version: int) -> None:
    answer = ask(BrokerInMemory(topics={"orders": 1}), *topics, version=version)
    message = "This server does not host this topic-partition." if version == 2 else ""
    assert (answer.error_code, answer.error_message, answer.nodes) == (0, "", [])
    assert [(each.topic_name, [partition.partition_index for partition in each.partitions]) for each in answer.topics] == topics
    for topic in answer.topics:
        for partition in topic.partitions:
            assert (partition.error_code, partition.error_message, partition.leader_id, partition.current_voters) == (3, message, 0, [])
