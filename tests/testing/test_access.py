"""Brokers of the test kit with users and access control."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.errors import TopicAuthorizationFailedError

import minibroker
from minibroker.testing import Broker, BrokerError, BrokerProcess, BrokerThread, secure

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


def test_users_without_acls_may_do_everything() -> None:
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


def _produce(config: dict[str, Any], topic: str) -> str | None:
    """Produce by confluent-kafka; the name of the error, None: it is written."""
    outcomes: list[Any] = []
    producer = Producer(config | {"log_level": 0})
    producer.produce(topic, b"x", on_delivery=lambda error, _message: outcomes.append(error))
    producer.flush(30)
    (outcome,) = outcomes
    return None if outcome is None else str(outcome.name())  # it cannot be compared with None


@pytest.mark.parametrize("form", ["thread", "process"])
def test_a_secure_broker_for_confluent_and_kafka_python(form: Any) -> None:
    with secure({"alice": 'pa"ss'}, ["alice allow WRITE TOPIC orders-*"], topics=["orders-1", "other"], mtls=True, form=form) as broker:
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            assert _produce(broker.client_config("confluent", user="alice", mechanism=mechanism), "orders-1") is None
        assert _produce(broker.client_config("confluent", user="alice"), "other") == "TOPIC_AUTHORIZATION_FAILED"
        assert _produce(broker.client_config("confluent", user="admin"), "other") is None
        producer = KafkaProducer(**broker.client_config("kafka-python", user="alice", mechanism="SCRAM-SHA-512"))
        producer.send("orders-1", b"x").get(timeout=30)
        producer.close()
        assert (len(broker.records("orders-1")), len(broker.records("other"))) == (3, 1)
        java = broker.client_config("java", user="alice")
        assert (java["security.protocol"], java["ssl.truststore.type"], java["ssl.keystore.type"]) == ("SASL_SSL", "PEM", "PEM")
        assert java["ssl.truststore.certificates"].startswith("-----BEGIN CERTIFICATE-----")
        spark = broker.client_config("spark", user="alice")
        assert spark.keys() == {f"kafka.{name}" for name in java}


async def test_a_secure_broker_in_the_loop_of_the_test() -> None:
    async with secure({"alice": "a"}, ["alice allow ALL TOPIC orders"], topics=["orders"], form="async") as broker:
        async with AIOKafkaProducer(**broker.client_config("aiokafka", user="alice", mechanism="SCRAM-SHA-256")) as producer:
            await producer.send_and_wait("orders", b"x")
        assert len(await broker.records("orders")) == 1


def test_client_certificate_name_is_the_user_without_logins() -> None:
    with BrokerThread(topics=["orders"], mtls=True, acls=["alice allow WRITE TOPIC orders"]) as broker:
        assert _produce(broker.client_config("confluent", user="alice"), "orders") is None
        assert _produce(broker.client_config("confluent", user="bob"), "orders") == "TOPIC_AUTHORIZATION_FAILED"
        assert len(broker.records("orders")) == 1


def test_tls_without_logins() -> None:
    with BrokerThread(topics=["orders"], tls=True) as broker:
        assert _produce(broker.client_config("confluent"), "orders") is None
        assert broker.client_config("java").keys() == {
            "bootstrap.servers", "security.protocol", "ssl.truststore.type", "ssl.truststore.certificates",
        }  # fmt: skip
        with pytest.raises(BrokerError, match="has no users"):
            broker.client_config("java", user="alice")


def test_no_secret_is_in_the_repr_of_options_or_the_output() -> None:
    with secure({"alice": "alice-secret"}, form="process") as broker:
        assert "alice-secret" not in repr(vars(broker)["_access"].initial)
        assert "alice-secret" not in broker.output
        assert "PRIVATE KEY" not in broker.output


def test_secure_is_in_the_package() -> None:
    assert minibroker.secure is secure
    with pytest.raises(BrokerError, match="form 'ruby' is not one of thread, process, async"):
        minibroker.secure(form="ruby")  # type: ignore[call-overload]


def test_invalid_options_are_refused() -> None:
    with pytest.raises(BrokerError, match="super_users and acls need users"):
        BrokerThread(acls=["alice allow READ TOPIC t"])
    with pytest.raises(BrokerError, match="is not an access control entry"):
        BrokerThread(users={"alice": "a"}, acls=["alice"])
    with BrokerThread(users={"alice": "a"}) as broker:
        with pytest.raises(BrokerError, match="user 'bob' is not one of the broker's: alice"):
            broker.client_config("java", user="bob")
        with pytest.raises(BrokerError, match="say who connects"):
            broker.client_config("java")
        with pytest.raises(BrokerError, match="client 'ruby' is not one of"):
            broker.client_config("ruby", user="alice")
    with BrokerThread() as broker:
        assert broker.client_config("confluent") == {"bootstrap.servers": broker.bootstrap_servers}
        with pytest.raises(BrokerError, match="has no users"):
            broker.client_config("confluent", user="alice")
