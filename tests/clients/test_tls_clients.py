"""Real Python clients by SSL and SASL_SSL: with the right authority, and with everything that may be wrong."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from minibroker.security.certificates import Authority, write_folder, write_pem
from tests.support.becoming import wait_until
from tests.support.broker_process import BrokerProcess

PASSWORD = "hunter2-secret"
_PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{PASSWORD}";'


def properties(folder: Path) -> dict[str, str]:
    """The properties of a broker whose listeners have good and bad certificates; ports are free ones."""
    names = ("SSL", "SASL_SSL", "EXPIRED", "ELSEWHERE", "MUTUAL")
    texts = {
        "listeners": ",".join(["PLAINTEXT://localhost:0", *[f"{name}://localhost:0" for name in names]]),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,EXPIRED:SSL,ELSEWHERE:SSL,MUTUAL:SSL",
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": _PLAIN,
    }  # fmt: skip
    return texts | {f"listener.name.{name}.ssl.keystore.location": str(folder / f"{name}.pem") for name in ("expired", "elsewhere")}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("secured")
    write_folder(folder, ["localhost", "127.0.0.1", "::1"], client_name="alice")
    authority = Authority.load(folder)
    expired = authority.issue("broker", ["localhost"], valid_until=datetime.now(UTC) - timedelta(days=1))
    write_pem(folder / "expired.pem", expired, authority)
    write_pem(folder / "elsewhere.pem", authority.issue("broker", ["elsewhere.example"]), authority)
    Authority.create("other")
    (folder / "other.pem").write_text(Authority.create("other").issued.certificate_pem)
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in properties(folder).items()))
    with BrokerProcess(folder, "--config", str(file), port=-1) as process:
        yield process


def confluent(broker: BrokerProcess, listener: str, **more: str) -> dict[str, Any]:
    config = {
        "bootstrap.servers": broker.bootstrap_of(listener),
        "security.protocol": "ssl",
        "ssl.ca.location": str(broker.folder / "ca.pem"),
    }
    return config | {name.replace("_", "."): text for name, text in more.items()}


def round_trip(config: dict[str, Any], topic: str) -> bytes:
    from tests.support.confluent import Consumer, Producer

    producer = Producer(config)
    producer.produce(topic, b"hello")
    assert producer.flush(20) == 0
    consumer = Consumer(config | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        records: list[Any] = []

        def has_arrived() -> bool:
            records.extend(consumer.consume(1, 1))
            return bool(records)

        wait_until(has_arrived, "a record")
        assert records[0].error() is None
        return bytes(records[0].value())
    finally:
        consumer.close()


def test_confluent(broker: BrokerProcess) -> None:
    assert round_trip(confluent(broker, "SSL"), "confluent") == b"hello"
    pem = str(broker.folder / "client.pem")
    assert round_trip(confluent(broker, "MUTUAL", ssl_certificate_location=pem, ssl_key_location=pem), "mutual") == b"hello"
    login = {"security_protocol": "sasl_ssl", "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": PASSWORD}
    assert round_trip(confluent(broker, "SASL_SSL", **login), "sasl") == b"hello"


@pytest.mark.parametrize(
    ("listener", "more", "problem"),
    [
        ("SSL", {"ssl_ca_location": "other.pem"}, "certificate verify failed"),
        ("EXPIRED", {}, "certificate verify failed"),
        ("ELSEWHERE", {}, "certificate verify failed"),
        ("MUTUAL", {}, "certificate required"),
        ("SASL_SSL", {"sasl_password": "wrong"}, "Invalid username or password"),
        ("PLAINTEXT", {}, "SSL"),
    ],
)
def test_confluent_reports_tls_errors(broker: BrokerProcess, listener: str, more: dict[str, str], problem: str) -> None:
    from confluent_kafka import KafkaError

    from tests.support.confluent import Producer

    config = confluent(broker, listener, **more)
    if more.get("ssl_ca_location"):
        config["ssl.ca.location"] = str(broker.folder / more["ssl_ca_location"])
    if listener == "SASL_SSL":
        config |= {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    errors: list[KafkaError] = []
    producer = Producer(config | {"error_cb": errors.append})

    def is_said() -> bool:
        producer.poll(0.1)
        return any(problem in str(error) for error in errors)

    wait_until(is_said, problem, 30)
    log = broker.output
    assert PASSWORD not in log


def test_kafka_python(broker: BrokerProcess) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    pem = str(broker.folder / "client.pem")
    config = {
        "bootstrap_servers": broker.bootstrap_of("MUTUAL"), "security_protocol": "SSL", "ssl_cafile": str(broker.folder / "ca.pem"),
        "ssl_certfile": pem, "ssl_keyfile": pem,
    }  # fmt: skip
    producer = KafkaProducer(**config)
    producer.send("kafka-python", b"hello").get(20)
    producer.close()
    consumer = KafkaConsumer("kafka-python", **config, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_aiokafka(broker: BrokerProcess) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def main() -> bytes:
        context = ssl.create_default_context(cafile=broker.folder / "ca.pem")
        config = {
            "bootstrap_servers": broker.bootstrap_of("SASL_SSL"), "security_protocol": "SASL_SSL", "ssl_context": context,
            "sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD,
        }  # fmt: skip
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait("aiokafka", b"hello")
        async with AIOKafkaConsumer("aiokafka", **config, auto_offset_reset="earliest") as consumer:
            return bytes((await consumer.getone()).value)

    assert asyncio.run(main()) == b"hello"
