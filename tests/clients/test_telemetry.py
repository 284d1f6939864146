"""Metrics that real clients push to minibroker: Java 4.3.1, confluent-kafka and franz-go, and what Kafka's tools ask them for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minibroker.testing import BrokerThread, PushingClient
from tests.clients.spoken_clients import go_program
from tests.support import java
from tests.support.becoming import wait_until
from tests.support.confluent import Consumer, Producer

GO_PROGRAM = Path(__file__).parents[1] / "golden" / "franz_go"
CLIENT_METRICS_COMMAND = "org.apache.kafka.tools.ClientMetricsCommand"
RECORDS = 60
A_SECOND = 20  #: of the records, so that a producer lives for some push intervals: one that closes earlier may push nothing


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    with BrokerThread(topics={"telemetry": 1}, config={"minibroker.telemetry.interval.ms": 500}) as broker:
        yield broker


def client_of(broker: BrokerThread, client_id: str) -> PushingClient:
    (client,) = [each for each in broker.clients if each.client_id == client_id]
    return client


def java_produce(broker: BrokerThread) -> None:
    load = ("--num-records", str(RECORDS), "--throughput", str(A_SECOND), "--record-size", "10")
    at = ("--bootstrap-server", broker.bootstrap_servers, "--command-property", "client.id=java-producer", "--topic", "telemetry")
    java.run_tool(java.PRODUCER_PERFORMANCE, *at, *load)


def java_consume(broker: BrokerThread) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers, "--topic", "telemetry", "--group", "readers")
    java.run_tool(java.CONSOLE_CONSUMER, *at, "--from-beginning", "--timeout-ms", "3000")


def test_java_clients_push_all_of_their_metrics_until_they_close(broker: BrokerThread) -> None:
    java_produce(broker)
    producer = client_of(broker, "java-producer")
    assert (producer.software_name, producer.software_version) == ("apache-kafka-java", java.KAFKA_VERSION)
    assert A_SECOND <= producer.metrics["producer.record.send.total"] <= RECORDS
    assert A_SECOND <= producer.metrics.value("producer.topic.record.send.total", topic="telemetry") <= RECORDS
    assert producer.metrics["producer.request.latency.max"] > 0
    assert len(producer.metrics) > 60
    java_consume(broker)
    consumer = client_of(broker, "console-consumer")
    assert consumer.labels["group_id"] == "readers"
    assert consumer.metrics["consumer.fetch.manager.records.consumed.total"] == RECORDS
    assert consumer.metrics["consumer.coordinator.rebalance.total"] == 1
    assert not consumer.is_connected
    assert [request for request in broker.request_log.of("PushTelemetry") if request.errors] == []


def test_confluent_kafka_pushes_until_it_closes(broker: BrokerThread) -> None:
    config = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "orders"}
    producer = Producer(config)
    producer.produce("telemetry", b"value")
    assert producer.flush(30) == 0
    wait_until(lambda: bool(broker.clients and broker.clients[0].push_count >= 2), "the producer has not pushed twice")
    assert client_of(broker, "orders").metrics.value("producer.node.request.latency.max") > 0
    del producer
    wait_until(lambda: not client_of(broker, "orders").is_connected, "the producer is still connected")
    consumer = Consumer(config | {"client.id": "reader", "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["telemetry"])
    assert consumer.poll(30) is not None
    wait_until(lambda: client_of(broker, "reader").push_count >= 1, "the consumer has not pushed")
    consumer.close()
    wait_until(lambda: not client_of(broker, "reader").is_connected, "the consumer is still connected")
    found = client_of(broker, "reader")
    assert found.labels["group_id"] == "readers"
    assert found.metrics["consumer.coordinator.rebalance.latency.total"] > 0
    assert found.software_name == "confluent-kafka-python"


def test_franz_go_pushes_until_it_closes(broker: BrokerThread) -> None:
    subprocess.run([str(go_program("franz-go", GO_PROGRAM)), broker.bootstrap_servers, "telemetry"], check=True)
    client = client_of(broker, "franz-go")
    assert (client.software_name, client.is_terminated) == ("kgo", True)
    assert client.labels["group_id"] == "telemetry-franz-go"
    assert client.metrics["producer.connection.creation.total"] >= 1
    assert client.metrics.value("consumer.node.request.latency.max", node_id="1") > 0


def test_client_metrics_command_decides_what_clients_push(broker: BrokerThread) -> None:
    at = ("--bootstrap-server", broker.bootstrap_servers)
    wanted = ("--metrics", "org.apache.kafka.producer.request.latency.", "--interval", "100", "--match", "client_id=java-.*")
    java.run_tool(CLIENT_METRICS_COMMAND, *at, "--alter", "--name", "latency", *wanted)
    java_produce(broker)
    producer = client_of(broker, "java-producer")
    assert set(producer.metrics) == {f"org.apache.kafka.producer.request.latency.{kind}" for kind in ("avg", "max")}
    assert producer.push_interval_ms == 100
    described = java.run_tool(CLIENT_METRICS_COMMAND, *at, "--describe", "--name", "latency")
    assert "org.apache.kafka.producer.request.latency." in described
    java.run_tool(CLIENT_METRICS_COMMAND, *at, "--delete", "--name", "latency")
    broker.reset()
    java_produce(broker)
    assert len(client_of(broker, "java-producer").metrics) > 60
