"""Clients of several libraries log in by every mechanism, rightly and wrongly, over SASL_PLAINTEXT."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.golden.sasl_scenes import Ports, make_users, properties
from tests.support import java
from tests.support.confluent import Consumer, Producer
from tests.support.ports import free_ports
from tests.support.sasl_broker import PLAIN_MODULE, SCRAM_MODULE, SaslBroker

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TIMEOUT_S = 30.0


class Login(NamedTuple):
    """How a client logs in."""

    mechanism: str
    user: str = "alice"
    password: str = "secret"
    is_expired: bool = False  #: its token

    def token(self) -> tuple[str, int]:
        now_s = int(time.time())
        expires_s = now_s + (-60 if self.is_expired else 3600)
        parts = ({"alg": "none"}, {"sub": self.user, "iat": now_s - 90, "exp": expires_s})
        return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".", now_s + 3600


RIGHT = [Login(mechanism) for mechanism in MECHANISMS]
WRONG = [
    *(Login(mechanism, password="wrong") for mechanism in MECHANISMS[:3]),
    *(Login(mechanism, user="nobody") for mechanism in MECHANISMS[:3]),
    Login("OAUTHBEARER", is_expired=True),
]


@pytest.fixture(scope="module")
def ports() -> Iterator[Ports]:
    first = free_ports(3)
    ports = Ports(first, first + 1, first + 2)
    with SaslBroker(properties(ports)):
        make_users(ports)
        yield ports


def librdkafka(login: Login, port: int) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": login.mechanism,
    }
    if login.mechanism == "OAUTHBEARER":
        return {**config, "oauth_cb": lambda _: login.token()}
    return {**config, "sasl.username": login.user, "sasl.password": login.password}


def confluent_round_trip(login: Login, port: int, topic: str) -> list[bytes]:
    failures: list[Any] = []
    config = {**librdkafka(login, port), "error_cb": failures.append}
    producer = Producer(config)
    producer.produce(topic, b"value")
    deadline = time.monotonic() + TIMEOUT_S
    while producer.flush(0.1) and time.monotonic() < deadline:
        if any(failure.name() == "_AUTHENTICATION" for failure in failures):
            producer.purge()
            producer.flush(1)
            raise PermissionError(failures[0].str())
    consumer = Consumer({**config, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    return [message.value()] if message is not None else []


def python_login(login: Login, port: int, provider: type[Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": login.mechanism,
    }
    if login.mechanism == "OAUTHBEARER":
        return {**config, "sasl_oauth_token_provider": provider()}
    return {**config, "sasl_plain_username": login.user, "sasl_plain_password": login.password}


def kafka_python_round_trip(login: Login, port: int, topic: str) -> list[bytes]:
    import kafka
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        def token(self) -> str:
            return login.token()[0]

    config = python_login(login, port, Provider)
    producer = kafka.KafkaProducer(**config, max_block_ms=10_000)
    producer.send(topic, b"value").get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(topic, **config, auto_offset_reset="earliest", consumer_timeout_ms=20_000, group_id=f"group-{topic}")
    values = [next(consumer).value]
    consumer.close()
    return values


def aiokafka_round_trip(login: Login, port: int, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]  # untyped
        async def token(self) -> str:
            return login.token()[0]

    async def run() -> list[bytes]:
        config = python_login(login, port, Provider)
        async with AIOKafkaProducer(**config) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest", group_id=f"group-{topic}") as consumer:
            return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value]

    return asyncio.run(run())


CLIENTS: dict[str, Callable[[Login, int, str], list[bytes]]] = {
    "confluent": confluent_round_trip,
    "kafka-python": kafka_python_round_trip,
    "aiokafka": aiokafka_round_trip,
}


@pytest.mark.parametrize("login", RIGHT, ids=lambda login: login.mechanism)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_logs_in_writes_and_reads(ports: Ports, client: str, login: Login) -> None:
    topic = f"{client}-{login.mechanism}"
    assert CLIENTS[client](login, ports.sasl, topic) == [b"value"]


@pytest.mark.parametrize("login", WRONG, ids=lambda login: f"{login.mechanism}-{login.user}-{login.password}")
def test_librdkafka_reports_an_error_of_authentication(ports: Ports, login: Login) -> None:
    with pytest.raises(PermissionError, match=r"[Aa]uthentication|SASL"):
        confluent_round_trip(login, ports.sasl, "never")


@pytest.mark.parametrize("login", WRONG[:6], ids=lambda login: f"{login.mechanism}-{login.user}-{login.password}")
def test_aiokafka_reports_an_error_of_authentication(ports: Ports, login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    import aiokafka.client
    from aiokafka.errors import KafkaConnectionError

    lines: list[str] = []
    monkeypatch.setattr(aiokafka.client.log, "error", lambda line, *values: lines.append(line % values))
    with pytest.raises(KafkaConnectionError):
        aiokafka_round_trip(login, ports.sasl, "never")
    assert any("[Error 58] SaslAuthenticationFailed: Authentication failed" in line for line in lines), lines


@pytest.mark.parametrize("login", [*RIGHT[:2], WRONG[0], WRONG[1]], ids=lambda login: f"{login.mechanism}-{login.password}")
def test_kcat(ports: Ports, login: Login) -> None:
    options = [each for name, value in librdkafka(login, ports.sasl).items() for each in ("-X", f"{name}={value}")]
    run = subprocess.run(["kcat", *options, "-L", "-m", "3"], capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode == 0) == (login.password == "secret"), run.stderr
    if run.returncode:
        assert "Authentication failed" in run.stderr
        assert "wrong" not in run.stderr


@pytest.mark.parametrize("login", [RIGHT[0], RIGHT[1], WRONG[1]], ids=lambda login: f"{login.mechanism}-{login.password}")
def test_java(ports: Ports, login: Login, tmp_path: Path) -> None:
    module = PLAIN_MODULE if login.mechanism == "PLAIN" else SCRAM_MODULE
    jaas = f'{module} required username="{login.user}" password="{login.password}";'
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={login.mechanism}\nsasl.jaas.config={jaas}\n")
    at = ("--bootstrap-server", f"127.0.0.1:{ports.sasl}", "--command-config", str(file))
    if login.password == "wrong":
        said = java.run_tool(java.TOPIC_COMMAND, *at, "--list", check=False, with_stderr=True)
        assert "SaslAuthenticationException: Authentication failed during authentication due to invalid credentials" in said
        return
    topic = ("--topic", f"java-{login.mechanism}")
    java.run_tool(java.CONSOLE_PRODUCER, *at, *topic, stdin="value\n")
    read = java.run_tool(java.CONSOLE_CONSUMER, *at, *topic, "--from-beginning", "--max-messages", "1")
    assert read.strip() == "value"
