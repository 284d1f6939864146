"""Metadata: which topics, by name and by id; made on first use; answers held against those of Kafka 4.3.1."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.errors import InvalidRequest, InvalidTopicException, UnknownTopicId, UnknownTopicOrPartition
from minibroker.schemas import k03_metadata as schema
from tests.support.broker_in_memory import BrokerInMemory

ANY_ID = uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)


@pytest.fixture
def broker() -> Iterator[BrokerInMemory]:
    broker = BrokerInMemory(topics={"orders": 2, "clicks": 1})
    yield broker
    broker.cluster.close()


def named(*names: str, create: bool = False) -> schema.Request:
    return schema.Request(topics=[schema.Topic(name=name) for name in names], allow_auto_topic_creation=create)


def topics(broker: BrokerInMemory, request: schema.Request, version: int = 13) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in broker.ask(request, version).topics]


@pytest.mark.parametrize("version", range(schema.VERSIONS[0], schema.VERSIONS[1] + 1))
def test_every_version_describes_a_topic(broker: BrokerInMemory, version: int) -> None:
    response = broker.ask(named("orders"), version)
    (topic,) = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", 0, False)
    assert [(each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert [(node.node_id, node.host, node.port) for node in response.brokers] == [(1, "localhost", 9092)]
    if version >= 1:
        assert response.controller_id == 1
    if version >= 2:
        assert response.cluster_id == broker.cluster.cluster_id
    if version >= 10:
        assert topic.topic_id == broker.cluster.topic("orders").topic_id


def test_all_topics_or_none(broker: BrokerInMemory) -> None:
    everything = [("orders", 0), ("clicks", 0)]
    assert topics(broker, schema.Request(topics=[]), 0) == everything
    for version in (1, 8, 13):
        assert topics(broker, schema.Request(topics=None), version) == everything
        assert topics(broker, schema.Request(topics=[]), version) == []


def test_auto_created_topic_is_ready_immediately(broker: BrokerInMemory) -> None:
    assert topics(broker, named("new")) == [("new", UnknownTopicOrPartition.code)]
    (topic,) = broker.ask(named("new", create=True)).topics
    assert (topic.error_code, [each.leader_id for each in topic.partitions]) == (0, [1])
    assert topics(broker, named("new")) == [("new", 0)]


def test_versions_below_4_always_auto_create(broker: BrokerInMemory) -> None:
    assert topics(broker, named("new"), 3) == [("new", 0)]


def test_auto_create_topics_enable_and_partition_counts() -> None:
    broker = BrokerInMemory(config={"auto.create.topics.enable": "false"})
    assert topics(broker, named("new", create=True)) == [("new", UnknownTopicOrPartition.code)]
    broker = BrokerInMemory(config={"num.partitions": "3", "topic.partition.count.map": "clicks:5"})
    made = broker.ask(named("orders", "clicks", create=True)).topics
    assert [(topic.name, len(topic.partitions)) for topic in made] == [("orders", 3), ("clicks", 5)]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "é", "../../etc", "a\0b", "a\\b"])
@pytest.mark.parametrize("create", [True, False])
def test_invalid_topic_names(broker: BrokerInMemory, name: str, create: bool) -> None:
    before = sorted(path.name for path in broker.folder.rglob("*"))
    assert topics(broker, named(name, create=create)) == [(name, InvalidTopicException.code)]
    assert sorted(path.name for path in broker.folder.rglob("*")) == before


def test_by_id(broker: BrokerInMemory) -> None:
    topic_id = broker.cluster.topic("orders").topic_id
    assert topics(broker, schema.Request(topics=[schema.Topic(topic_id=topic_id, name=None)])) == [("orders", 0)]
    # An id counts whatever the name beside it says.
    for name in (None, "orders", "nope"):
        (topic,) = broker.ask(schema.Request(topics=[schema.Topic(topic_id=ANY_ID, name=name)]), 12).topics
        assert (topic.name, topic.topic_id, topic.error_code) == (None, ANY_ID, UnknownTopicId.code)


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_invalid(broker: BrokerInMemory, version: int) -> None:
    (topic,) = broker.ask(schema.Request(topics=[schema.Topic(topic_id=ANY_ID, name="orders")]), version).topics
    assert (topic.error_code, topic.partitions) == (InvalidRequest.code, [])


def test_neither_name_nor_id(broker: BrokerInMemory) -> None:
    assert topics(broker, schema.Request(topics=[schema.Topic(name=None)])) == [("", InvalidRequest.code)]


def test_duplicate_topics_are_returned_once(broker: BrokerInMemory) -> None:
    topic_id = broker.cluster.topic("orders").topic_id
    twice = schema.Request(topics=[schema.Topic(name="orders"), schema.Topic(name="orders"), schema.Topic(topic_id=topic_id, name=None)])
    assert topics(broker, twice, 12) == [("orders", 0)]


def test_invalid_name_does_not_affect_others(broker: BrokerInMemory) -> None:
    assert topics(broker, named("nope", "orders", "..")) == [("nope", 3), ("orders", 0), ("..", 17)]


def test_authorized_operations(broker: BrokerInMemory) -> None:
    request = schema.Request(
        topics=[schema.Topic(name="orders")], include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    response = broker.ask(request, 8)
    assert (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations) == (0x0DF8, 0x1FA0)  # Kafka's
    response = broker.ask(named("orders"), 8)
    assert (response.topics[0].topic_authorized_operations, response.cluster_authorized_operations) == (-(2**31), -(2**31))


def test_advertised_address_matches_the_listener() -> None:
    broker = BrokerInMemory(
        config={
            "listeners": "HOST://:9092,DOCKER://:19092",
            "advertised.listeners": "HOST://localhost:9092,DOCKER://broker:19092",
            "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT",
        }
    )
    for name, address in (("HOST", ("localhost", 9092)), ("DOCKER", ("broker", 19092))):
        broker.connection = ConnectionInfo(name, "127.0.0.1")
        (node,) = broker.ask(named()).brokers
        assert (node.host, node.port) == address


def test_offline_partition_has_no_leader(broker: BrokerInMemory) -> None:
    broker.cluster.partition("orders", 1).online_log = None
    partitions = broker.ask(named("orders")).topics[0].partitions
    assert [(each.error_code, each.leader_id, each.isr_nodes, each.offline_replicas) for each in partitions] == [
        (0, 1, [1], []),
        (5, -1, [], [1]),
    ]


def test_metadata_topic_cannot_be_created(broker: BrokerInMemory) -> None:
    assert topics(broker, named("__cluster_metadata", create=True)) == [("__cluster_metadata", UnknownTopicOrPartition.code)]


def test_authorized_operations_of_an_unknown_topic(broker: BrokerInMemory) -> None:
    request = schema.Request(
        topics=[schema.Topic(name="nope"), schema.Topic(name=None, topic_id=ANY_ID)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    assert [topic.topic_authorized_operations for topic in broker.ask(request, 13).topics] == [3576, schema.OPERATIONS_NOT_ASKED_FOR]
