"""DescribeCluster: the answers of Apache Kafka; the address of the listener that the client came in by."""

from __future__ import annotations

from minibroker.dispatch.context import ConnectionInfo
from minibroker.schemas import k60_describe_cluster as schema
from tests.handlers.kafka_answers import answered_versions, differences
from tests.support.broker_in_memory import BrokerInMemory


def test_answers_as_apache_kafka_does() -> None:
    assert differences("k60_describe_cluster") == []


def test_every_version_is_answered() -> None:
    assert answered_versions("k60_describe_cluster") == {0, 1, 2}


def test_each_listener_has_its_own_address() -> None:
    broker = BrokerInMemory(
        config={
            "listeners": "HOST://:0,DOCKER://:19092",
            "advertised.listeners": "HOST://localhost:0,DOCKER://broker:19092",
            "listener.security.protocol.map": "HOST:PLAINTEXT,DOCKER:PLAINTEXT",
        }
    )
    broker.cluster.node.set_bound_port("HOST", 40_001)

    addresses = {}
    for name in ("HOST", "DOCKER"):
        broker.connection = ConnectionInfo(name, "127.0.0.1")
        (node,) = broker.ask(schema.Request(include_cluster_authorized_operations=False)).brokers
        addresses[name] = (node.host, node.port)

    assert addresses == {"HOST": ("localhost", 40_001), "DOCKER": ("broker", 19_092)}
