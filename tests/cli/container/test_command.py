"""`minibroker container` as a process: what stands in the environment and makes no sense is one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minibroker.cli.container.command import take_secret_files
from minibroker.client.client import Client
from minibroker.client.security.connecting import connector
from minibroker.errors import ConfigurationError
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority, pkcs12_of
from tests.support.child_process import ChildProcess
from tests.support.ports import free_port, free_ports
from tests.support.sasl_broker import SaslBroker


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("MINIBROKER_SERVE_OPTIONS", "--set 'x=1", """MINIBROKER_SERVE_OPTIONS: "--set 'x=1" cannot be split like in a shell: """),
        ("MINIBROKER_SERVE_OPTIONS", "--broker 3", "No such option '--broker'."),
        ("KAFKA_LISTENERS", "9092", "listeners: '9092' is not NAME://HOST:PORT"),
        ("KAFKA_ADVERTISED_LISTENERS", "localhost:9092", "advertised.listeners: 'localhost:9092' is not NAME://HOST:PORT"),
    ],
)
def test_invalid_settings_are_one_line_errors(tmp_path: Path, variable: str, value: str, message: str) -> None:
    environment = {**os.environ, "KAFKA_LOG_DIRS": str(tmp_path), variable: value}
    command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {1, 2}
    assert done.stderr.startswith(f"Error: {message}")
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_health_uses_the_configured_listener(tmp_path: Path) -> None:
    """As a health check does: the same environment, and a broker that listens by an option."""
    with BrokerProcess(tmp_path) as broker:
        port = broker.bootstrap.rpartition(":")[2]
        for options in (f"-p {port}", f"--set listeners=PLAINTEXT://127.0.0.1:{port}"):
            environment = {**os.environ, "KAFKA_LISTENERS": "PLAINTEXT://:1", "MINIBROKER_SERVE_OPTIONS": options}
            command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none"), "--health"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith("healthy: ")


def test_health_includes_the_schema_registry(tmp_path: Path) -> None:
    port, registry = free_ports(2), free_port()
    environment = {"KAFKA_LISTENERS": f"PLAINTEXT://127.0.0.1:{port}", "MINIBROKER_REGISTRY_PORT": str(registry)}
    for options in ("", "--log-level info"):
        done = health(tmp_path, **environment, MINIBROKER_SERVE_OPTIONS=options)
        assert (done.returncode, done.stderr) == (
            1, f"Error: the schema registry does not answer on port {registry}: Connection refused\n"
        )  # fmt: skip
    written_out = health(tmp_path, MINIBROKER_SERVE_OPTIONS=f"--registry-port {registry} --registry-host localhost")
    assert written_out.stderr == f"Error: the schema registry does not answer on port {registry}: Connection refused\n"
    assert (
        health(tmp_path, MINIBROKER_REGISTRY_PORT="x").stderr == "Error: MINIBROKER_REGISTRY_PORT must be a port from 1 to 65535, got x\n"
    )
    command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none")]
    given = {**os.environ, **environment, "KAFKA_LOG_DIRS": str(tmp_path / "data")}
    with ChildProcess(command, tmp_path / "out", env=given) as broker:
        broker.wait_for("registry http://0.0.0.0:", 60)
        assert health(tmp_path, **environment).returncode == 0
        options = f"--registry-port {registry} --registry-host 0.0.0.0"
        listeners = {"KAFKA_LISTENERS": environment["KAFKA_LISTENERS"]}
        assert health(tmp_path, **listeners, MINIBROKER_SERVE_OPTIONS=options).returncode == 0


def health(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "minibroker", "container", "--config", str(folder / "none"), "--health"]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False)


def test_health_of_listeners_that_need_a_login(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority = Authority(tmp_path)
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(authority.issue("broker").file)}
    stores |= {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    protocols = {"SASL_PLAINTEXT": "SASL_PLAINTEXT", "SASL_SSL": "SASL_SSL", "SSL": "SSL", "MUTUAL": "SSL"}
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'
    users = {f"listener.name.{name}.plain.sasl.jaas.config": jaas for name in ("sasl_plaintext", "sasl_ssl")}
    first = free_ports(4)
    addresses = {name: f"127.0.0.1:{first + number}" for number, name in enumerate(protocols)}
    listeners = ",".join(f"{name}://{address}" for name, address in addresses.items())
    names = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    config = {"listeners": listeners, "listener.security.protocol.map": names, "sasl.enabled.mechanisms": "PLAIN", **stores, **users}
    with SaslBroker(config):
        done = health(tmp_path, KAFKA_LISTENERS=listeners, KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=names)
        assert (done.returncode, done.stderr) == (0, "")
        answers = ", ".join(f"{addresses[name]} ({protocol}) answers" for name, protocol in protocols.items())
        assert done.stdout == f"healthy: {answers}; metadata and log directories were not checked, because that needs a login\n"

        port = addresses["SASL_SSL"].rpartition(":")[2]
        for options in (f"--secure -p {port}", f"--tls --sasl a:b -p {port}", f"--set listeners=SASL_SSL://127.0.0.1:{port}"):
            done = health(tmp_path, MINIBROKER_SERVE_OPTIONS=options)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.startswith(f"healthy: 127.0.0.1:{port} (SASL_SSL) answers; ")
        lines = [each.getMessage() for each in caplog.records if each.name != "minibroker.server.loop"]  # busy machines have these
        assert lines == []  # a line at each check would fill the log
        done = health(tmp_path, MINIBROKER_SERVE_OPTIONS=f"--tls -p {addresses['SASL_PLAINTEXT'].rpartition(':')[2]}")
        assert (done.returncode, done.stdout) == (1, "")
        assert "is a listener without TLS" in done.stderr

        file = tmp_path / "client.properties"
        file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=secret\n")
        command = [sys.executable, "-m", "minibroker", "health", "-b", addresses["SASL_PLAINTEXT"], "--command-config", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith(", 1 log directory online\n")


def test_a_broker_with_secret_files_and_a_jaas_file(tmp_path: Path) -> None:
    """As compose files for Apache Kafka's and Confluent's images start one: with the container's command and its environment alone."""
    authority = Authority(tmp_path)
    issued = authority.issue("broker")
    (tmp_path / "kafka.keystore.p12").write_bytes(pkcs12_of(issued, "of the store"))
    (tmp_path / "credentials").write_text("of the store\n")
    (tmp_path / "jaas.conf").write_text(
        'KafkaServer {\n  org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";\n};\n'
    )
    port = free_port()
    environment = {
        **os.environ,
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_LISTENERS": f"SASL_SSL://127.0.0.1:{port}",
        "KAFKA_ADVERTISED_LISTENERS": f"SASL_SSL://127.0.0.1:{port}",
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.keystore.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "credentials",
        "KAFKA_SSL_KEY_CREDENTIALS": "credentials",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}",
        "MINIBROKER_SECRETS_DIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "minibroker", "container", "--config", str(tmp_path / "none")]
    broker = ChildProcess(command, tmp_path / "out.txt", env=environment)
    try:
        broker.wait_for("Kafka Server started", 60)
        user = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
        connect = connector({"security.protocol": "SASL_SSL", "ssl.ca.location": str(authority.file), **user})
        with Client(f"127.0.0.1:{port}", timeout_ms=20_000, connect=connect) as client:
            assert client.metadata(None).topics == []
    finally:
        broker.stop()
    assert "Warning" not in (tmp_path / "out.txt").read_text()
    assert "of the store" not in (tmp_path / "out.txt").read_text()


@pytest.mark.parametrize(
    ("value", "content", "problem"),
    [
        ("none.p12", None, "the file {F}/none.p12 does not exist"),
        ("/none.p12", None, "the file {F}/none.p12 does not exist"),
        ("password", b"\xff\xfe", "{F}/password is not a text file with a password"),
        ("password", b"x" * 70_000, "{F}/password is not a text file with a password"),
        (".", None, "cannot read {F}: Is a directory"),
        ("x" * 300, None, "cannot read {F}/" + "x" * 300 + ": File name too long"),
    ],
)
@pytest.mark.parametrize("variable", ["KAFKA_SSL_KEY_CREDENTIALS", "KAFKA_SSL_KEYSTORE_FILENAME"])
def test_secret_files_that_cannot_be_used(tmp_path: Path, variable: str, value: str, content: bytes | None, problem: str) -> None:
    if content is not None:
        (tmp_path / value).write_bytes(content)
        if variable == "KAFKA_SSL_KEYSTORE_FILENAME":
            take_secret_files({variable: value}, str(tmp_path))  # the broker reads it
            return
    with pytest.raises(ConfigurationError) as refused:
        take_secret_files({variable: value}, str(tmp_path))
    assert str(refused.value) == f"{variable}: {problem.replace('{F}', str(tmp_path))}"


def test_secret_files_that_another_user_owns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    with pytest.raises(
        ConfigurationError, match=r"cannot read .*/k\.p12: Permission denied: user \d+ of the container must be able to read"
    ):
        take_secret_files({"KAFKA_SSL_KEYSTORE_FILENAME": "k.p12"}, str(tmp_path))
