"""Faults of TLS handshakes and logins: what real clients report, what ends them, and what is refused."""

from __future__ import annotations

import json
import logging
import re
import socket
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from click.testing import CliRunner

from minibroker.cli.main import main
from minibroker.testing import Broker, BrokerError, BrokerThread, Surface, secure
from tests.support.broker_process import BrokerProcess

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def shared() -> Iterator[BrokerThread]:
    """No connection is idle for too long, because tests let hours go by."""
    users = {"alice": "alice-secret", "bob": "bob-secret"}
    with secure(users, ["* allow ALL TOPIC *"], topics=["orders"], config={"connections.max.idle.ms": -1}) as broker:
        yield broker


@pytest.fixture
def broker(shared: BrokerThread) -> BrokerThread:
    shared.reset()
    return shared


class Producer:
    """A producer of confluent-kafka that notes its errors."""

    def __init__(self, broker: Surface, user: str = "alice", mechanism: str = "PLAIN", **more: Any) -> None:
        self.errors: list[tuple[str, str]] = []
        config = {"log_level": 0, "error_cb": lambda error: self.errors.append((error.name(), error.str()))}
        names = {name.replace("_", "."): value for name, value in more.items()}
        self._producer = confluent_kafka.Producer(broker.client_config("confluent", user=user, mechanism=mechanism) | config | names)

    def write(self) -> None:
        """Write a record; fails if it is not acknowledged."""
        outcomes: list[Any] = []
        self._producer.produce("orders", b"x", on_delivery=lambda error, _message: outcomes.append(error and error.str()))
        assert self._producer.flush(TIMEOUT_S) == 0
        assert outcomes == [None]

    def error(self, name: str) -> str:
        """Return the text of the first error of this name; a record is waiting to be sent."""
        self._producer.produce("orders", b"x")
        for _ in range(TIMEOUT_S * 10):
            for found, text in self.errors:
                if found == name:
                    return text
            self._producer.poll(0.1)
        raise AssertionError(f"no error {name}, but {self.errors}")

    def goes_on(self) -> None:
        """Wait until the waiting records are acknowledged."""
        assert self._producer.flush(TIMEOUT_S) == 0


def verify_error(address: str, context: ssl.SSLContext) -> str | None:
    """Return why a Python client refuses the certificate; None: it is accepted."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as raw:
        try:
            with context.wrap_socket(raw, server_hostname=host):
                return None
        except ssl.SSLCertVerificationError as error:
            return error.verify_message


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("expired", "certificate has expired"),
        ("not_yet_valid", "certificate is not yet valid"),
        ("wrong_host", "IP address mismatch, certificate is not valid for '127.0.0.1'."),
        ("unknown_ca", "self-signed certificate in certificate chain"),
    ],
)
def test_a_certificate_that_clients_refuse(broker: BrokerThread, problem: str, message: str) -> None:
    context = broker.client_config("kafka-python", user="alice")["ssl_context"]
    connected = Producer(broker)
    connected.write()
    with broker.faults.certificate(problem).always() as fault:
        assert (verify_error(broker.bootstrap_servers, context) or "").startswith(message)  # a newer OpenSSL says more
        producer = Producer(broker)
        assert "certificate verify failed" in producer.error("_SSL")
        assert fault.hits >= 2
        connected.write()  # open connections stay
    producer.goes_on()
    assert verify_error(broker.bootstrap_servers, context) is None


def test_each_of_several_brokers_also_after_it_was_started_again() -> None:
    with secure({"alice": "a"}, ["* allow ALL TOPIC *"], topics={"orders": 3}, brokers=3) as broker:
        context = broker.client_config("kafka-python", user="alice")["ssl_context"]
        addresses = [*broker.nodes.addresses.values()]
        Producer(broker, mechanism="SCRAM-SHA-256").write()
        with broker.faults.certificate("expired").always():
            broker.nodes.stop(2)
            broker.nodes.start(2)
            assert {verify_error(address, context) for address in addresses} == {"certificate has expired"}
        assert {verify_error(address, context) for address in addresses} == {None}
        broker.faults.certificate("expired").always()
        broker.stop()
        broker.start()
        assert broker.faults.list() == []
        assert {verify_error(address, context) for address in broker.nodes.addresses.values()} == {None}


def test_one_handshake_of_several(broker: BrokerThread) -> None:
    context = broker.client_config("kafka-python", user="alice")["ssl_context"]
    fault = broker.faults.certificate("expired").on_call(2)
    found = [verify_error(broker.bootstrap_servers, context) for _ in range(3)]
    assert found == [None, "certificate has expired", None]
    assert (fault.calls, fault.hits) == (3, 1)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-512", "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-512"),
    ],
)
def test_a_right_password_is_refused_a_few_times(broker: BrokerThread, mechanism: str, message: str) -> None:
    fault = broker.faults.refuse_login("alice").times(2)
    Producer(broker, "bob", mechanism).write()
    producer = Producer(broker, "alice", mechanism)
    assert message in producer.error("_AUTHENTICATION")
    producer.goes_on()
    assert fault.hits == 2
    assert fault.calls >= 3


def test_a_user_is_revoked_in_the_middle_of_a_session(broker: BrokerThread) -> None:
    alice, bob = Producer(broker), Producer(broker, "bob")
    alice.write()
    bob.write()
    fault = broker.faults.revoke("alice").always()
    assert "Invalid username or password" in alice.error("_AUTHENTICATION")
    bob.write()
    assert bob.errors == []
    broker.faults.heal()
    alice.goes_on()
    assert broker.faults.list() == []
    with pytest.raises(BrokerError, match="there is no fault login-"):
        _ = fault.hits
    assert len(broker.records("orders")) == 4


def test_a_revoked_user_keeps_its_connections_until_it_logs_in_again(broker: BrokerThread) -> None:
    broker.faults.shorten_sessions(3_600_000).always()
    producer = Producer(broker)
    producer.write()
    fault = broker.faults.revoke("alice", keep_connections=True).always()
    producer.write()
    assert fault.calls == 0
    broker.advance(hours=2)
    assert "Invalid username or password" in producer.error("_AUTHENTICATION")
    fault.remove()
    producer.goes_on()


def test_short_sessions(caplog: pytest.LogCaptureFixture) -> None:
    # The first producer lives on. Its pushes of metrics would end its session while the second one is looked at.
    config = {"connections.max.idle.ms": -1, "minibroker.telemetry": "false"}
    with secure({"alice": "a"}, ["* allow ALL TOPIC *"], topics=["orders"], config=config) as broker:
        _see_short_sessions(broker, caplog)


def _see_short_sessions(broker: BrokerThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minibroker.server.sasl.listener")
    with broker.faults.shorten_sessions(3_600_000, user="alice").always() as fault:
        producer = Producer(broker)
        producer.write()
        before = fault.hits
        producer.write()
        assert fault.hits == before
        assert "session" not in caplog.text
        broker.advance(hours=2)
        producer.write()  # its connection is closed: it connects and logs in again
        assert fault.hits > before
        assert "has ended: its client sent a request without authenticating again" in caplog.text
    producer = Producer(broker)
    producer.write()
    caplog.clear()
    broker.advance(hours=2)
    producer.write()
    assert "session" not in caplog.text


def test_a_slow_login_waits_for_the_clock_of_the_broker(broker: BrokerThread) -> None:
    fault = broker.faults.delay_login(3_600_000, user="alice").always()
    producer = Producer(broker, socket_connection_setup_timeout_ms=1000)
    Producer(broker, "bob").write()
    assert "SASL authentication error" in producer.error("_TRANSPORT")
    assert fault.hits >= 1
    broker.faults.heal()
    producer.goes_on()

    broker.faults.delay_login(3_600_000).once()
    waiting = Producer(broker)
    waiting._producer.produce("orders", b"x")
    while not broker.faults.list()[0]["hits"]:
        waiting._producer.poll(0.01)
    broker.advance(hours=1)
    waiting.goes_on()


def test_a_login_that_waits_is_answered_when_its_fault_is_removed(broker: BrokerThread) -> None:
    fault = broker.faults.delay_login(3_600_000).always()
    producer = Producer(broker)
    producer._producer.produce("orders", b"x")
    while not fault.hits:
        producer._producer.poll(0.01)
    fault.remove()
    producer.goes_on()
    assert producer.errors == []


def test_the_test_kit_is_spared_and_reset_ends_all(broker: BrokerThread) -> None:
    broker.faults.certificate("expired").always()
    for fault in (broker.faults.refuse_login(), broker.faults.delay_login(3_600_000), broker.faults.shorten_sessions(1)):
        fault.always()
    assert broker.topics() == ["orders"]
    assert [each["hits"] for each in broker.faults.list()[1:]] == [0, 0, 0]
    broker.reset()
    assert broker.faults.list() == []
    Producer(broker).write()


def test_invalid_login_faults_are_refused(broker: BrokerThread) -> None:
    with pytest.raises(BrokerError, match=r"^faults: there is no problem 'expird': did you mean expired\?$"):
        broker.faults.certificate("expird").always()
    with pytest.raises(BrokerError, match=r"^faults: ms must be from 1 to 604800000, got 0$"):
        broker.faults.delay_login(0).always()
    with pytest.raises(BrokerError, match=r"^faults: user must be a name, got ''$"):
        broker.faults.revoke("").always()
    for rule, message in (
        ({"kind": "revoke"}, "revoke needs 'user'"),
        ({"kind": "certificate", "problem": "expired", "user": "alice"}, r"certificate has no 'user' \(it has: problem\)"),
        ({"kind": "revok", "user": "alice"}, r"there is no kind 'revok': did you mean revoke\?"),
        ({"kind": "refuse_login", "often": {"times": 0}}, "times must be at least 1, got 0"),
        ({"kind": "refuse_login", "often": 3}, "often must be an object, got 3"),
        ({"kind": "revoke", "user": "a", "keep_connections": 1}, "keep_connections must be true or false, got 1"),
    ):
        with pytest.raises(BrokerError, match=message):
            broker._execute("faults.login", {"rule": rule})
    assert broker.faults.list() == []
    with BrokerThread() as plain:
        with pytest.raises(BrokerError, match=r"certificate needs a listener with TLS: start the broker with tls=True"):
            plain.faults.certificate("expired").once()
        with pytest.raises(BrokerError, match=r"revoke needs a listener with logins: start the broker with users="):
            plain.faults.revoke("alice").once()


async def test_awaited_and_with_aiokafka() -> None:
    async with Broker(topics=["orders"], users={"alice": "a"}) as broker:
        fault = await broker.faults.refuse_login("alice").once()
        refused = AIOKafkaProducer(**broker.client_config("aiokafka", user="alice"))
        with pytest.raises(KafkaConnectionError):
            await refused.start()
        await refused.stop()
        assert await fault.hits == 1
        await broker.faults.heal()
        assert await broker.faults.list() == []
        async with AIOKafkaProducer(**broker.client_config("aiokafka", user="alice")) as producer:
            await producer.send_and_wait("orders", b"x")


def test_of_serve_with_tls_over_http(tmp_path: Path) -> None:
    arguments = ("--lab-port", "0", "--sasl", "alice:alice-secret", "--tls-dir", str(tmp_path / "tls"))
    with BrokerProcess(tmp_path, *arguments) as process:
        (url,) = re.findall(r", lab (http://\S+),", process.output)

        def ask(command: str, **arguments: Any) -> Any:
            body = json.dumps(arguments).encode()
            request = urllib.request.Request(f"{url}/{command}", body, {"Content-Type": "application/json"})  # noqa: S310  http
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310  as above
                return json.load(answer)["result"]

        context = ssl.create_default_context(cafile=str(tmp_path / "tls" / "ca.pem"))
        fault = ask("faults.login", rule={"kind": "certificate", "problem": "expired", "often": {"times": 1}})
        assert verify_error(process.bootstrap, context) == "certificate has expired"
        assert verify_error(process.bootstrap, context) is None
        assert ask("faults.state", **fault) == {"calls": 2, "hits": 1}
        for words in (["revoke", "alice", "--keep-connections", "--always"], ["shorten-sessions", "--ms", "5000", "--times", "2"]):
            assert CliRunner().invoke(main, ["lab", "--lab-url", url, "faults", *words]).exit_code == 0
        assert [(each["kind"], each["often"]) for each in ask("faults.list")] == [
            ("certificate", {"times": 1}), ("revoke", {}), ("shorten_sessions", {"times": 2}),
        ]  # fmt: skip
        ask("faults.heal")
        assert ask("faults.list") == []
