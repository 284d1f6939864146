"""Transactions are not served yet: a transactional producer must hear of it at once and for good, and not try until its time-out."""

from __future__ import annotations

import pytest

from tests.support import java


@pytest.fixture(autouse=True)
def own_broker(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--bootstrap-server"):
        pytest.skip("Apache Kafka has transactions")


def test_librdkafka(bootstrap: str) -> None:
    from confluent_kafka import KafkaException, Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments"})
    with pytest.raises(KafkaException, match="not supported by broker") as caught:
        producer.init_transactions(60)
    assert caught.value.args[0].fatal()  # a time-out would not be


def test_kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer
    from kafka.errors import IncompatibleBrokerVersion

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments")
    try:
        with pytest.raises(IncompatibleBrokerVersion, match="FindCoordinator"):
            producer.init_transactions()
    finally:
        producer.close(timeout=1)


async def test_aiokafka(bootstrap: str) -> None:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments")
    with pytest.raises(KafkaError, match="IncompatibleBrokerVersion"):
        await producer.start()
    await producer.stop()


@pytest.mark.java
def test_java_client(bootstrap: str, topic: str) -> None:
    records = ("--num-records", "1", "--record-size", "10", "--throughput", "-1")
    at = ("--bootstrap-server", bootstrap, "--topic", topic, "--transactional-id", "payments")
    told = java.run_tool(java.PRODUCER_PERFORMANCE, *at, *records, check=False, with_stderr=True)
    assert "UnsupportedVersionException: The node does not support FIND_COORDINATOR" in told
