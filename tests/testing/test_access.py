"""Brokers of the test kit with users and access control."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread

ACCESS: dict[str, Any] = {
    "users": {"admin": "a", "alice": 'pa"ss\\word'},
    "super_users": ["admin"],
    "acls": ["alice allow WRITE TOPIC orders"],
}


@pytest.mark.parametrize("kind", [BrokerThread, BrokerProcess])
def test_clients_log_in_and_the_kit_sees_everything(kind: type[BrokerThread | BrokerProcess]) -> None:
    with kind(topics=["orders", "other"], **ACCESS) as broker:
        producer = KafkaProducer(**broker.client_config("kafka-python", user="alice", mechanism="SCRAM-SHA-512"))
        producer.send("orders", b"x").get(timeout=30)
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("other", b"x").get(timeout=30)
        producer.close()
        outcomes: list[Any] = []
        confluent = Producer(broker.client_config("confluent", user="admin", mechanism="SCRAM-SHA-256"))
        confluent.produce("other", b"y", on_delivery=lambda error, _message: outcomes.append(error))
        confluent.flush(30)
        assert outcomes == [None]
        assert [record.value for record in broker.records("orders")] == [b"x"]
        assert [record.value for record in broker.records("other")] == [b"y"]
        broker.stop()
        broker.start()
        if kind is BrokerThread:  # the data of a process are gone with it
            assert [record.value for record in broker.records("orders")] == [b"x"]


async def test_in_the_loop_of_the_test() -> None:
    async with Broker(topics=["orders"], **ACCESS) as broker:
        producer = AIOKafkaProducer(**broker.client_config("aiokafka", user="alice"))
        await producer.start()
        await producer.send_and_wait("orders", b"x")
        await producer.stop()


def test_users_alone_let_everybody_who_logs_in_do_everything() -> None:
    with BrokerThread(users={"alice": "a"}) as broker:
        producer = KafkaProducer(**broker.client_config("kafka-python", user="alice"))
        producer.send("orders", b"x").get(timeout=30)
        producer.close()


def test_configurations_of_java_and_spark() -> None:
    with BrokerThread(**ACCESS) as broker:
        jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="pa\\"ss\\\\word";'
        java = broker.client_config("java", user="alice")
        assert java == {
            "bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
        }  # fmt: skip
        assert broker.client_config("spark", user="alice") == {f"kafka.{name}": value for name, value in java.items()}


def test_what_is_refused() -> None:
    with pytest.raises(BrokerError, match="super_users and acls need users"):
        BrokerThread(acls=["alice allow READ TOPIC t"])
    with pytest.raises(BrokerError, match="is not an access control entry"):
        BrokerThread(users={"alice": "a"}, acls=["alice"])
    with BrokerThread(users={"alice": "a"}) as broker:
        with pytest.raises(BrokerError, match="user 'bob' is not one of the broker's: alice"):
            broker.client_config("java", user="bob")
        with pytest.raises(BrokerError, match="say who logs in"):
            broker.client_config("java")
        with pytest.raises(BrokerError, match="client 'ruby' is not one of"):
            broker.client_config("ruby", user="alice")
    with BrokerThread() as broker:
        assert broker.client_config("confluent") == {"bootstrap.servers": broker.bootstrap_servers}
        with pytest.raises(BrokerError, match="has no users"):
            broker.client_config("confluent", user="alice")
