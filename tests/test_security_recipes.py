"""The commands and properties of docs/security.md, followed in an empty folder; tests/testing/test_docs.py follows the recipe for tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from minibroker.client.client import Client
from minibroker.client.security.connecting import connector
from minibroker.security.certificates import write_folder
from tests.support.child_process import ChildProcess
from tests.support.ports import free_ports

PAGE = (Path(__file__).parents[1] / "docs" / "security.md").read_text()
TIMEOUT_S = 60.0


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    """Return the blocks of code below a heading."""
    found = re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)
    assert found, title
    return found


class Home:
    """An empty folder, in which a user runs commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "HOME": str(folder), "PYTHONPATH": str(Path(__file__).parents[1])}

    def run(self, command: str) -> str:
        """Run a command of the page; return its output."""
        words = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def serving(self, command: str) -> Iterator[ChildProcess]:
        """Run a broker."""
        words = [sys.executable, "-m", *shlex.split(command)]
        with ChildProcess(words, self.folder / "out.txt", cwd=self.folder, env=self.environment) as process:
            process.wait_for("minibroker ready", TIMEOUT_S)
            yield process

    def properties(self, text: str, replacements: Mapping[str, str]) -> Path:
        """Write a block of properties, with addresses and folders of this machine."""
        for old, new in replacements.items():
            assert old in text, old
            text = text.replace(old, new)
        file = self.folder / "server.properties"
        file.write_text(text)
        return file


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def topics(port: int, config: Mapping[str, str]) -> list[str]:
    """List the topics that a client sees."""
    with Client(f"localhost:{port}", timeout_ms=20_000, connect=connector(config)) as client:
        return [topic.name or "" for topic in client.metadata(None).topics]


def test_one_command(home: Home) -> None:
    serve, by_name = blocks("In one command", "sh")
    (admin,) = re.findall(r"`(minibroker topics list .*?)`", section("In one command"))
    port = free_ports(2)
    with home.serving(f"{serve} --port {port}"):
        home.run(f"{admin.replace('list', 'create orders-1')} -b localhost:{port}")
        assert home.run(f"{admin} -b localhost:{port} -o name").split() == ["orders-1"]
        for name in ("ca.pem", "truststore.p12", "client.properties", "librdkafka.properties", "client.pem"):
            assert (home.folder / "data.tls" / name).exists()

    (client,) = blocks("In one command", "properties")
    config = dict(line.split("=", 1) for line in client.splitlines())
    port += 1
    with home.serving(f"{by_name.replace('9092', str(port))} --data-dir second"):
        with Client(
            f"localhost:{port}", connect=connector({**config, "sasl.username": "admin", "sasl.password": "admin-secret"})
        ) as admin_client:
            admin_client.metadata(None)
        assert topics(port, config) == []


def test_an_existing_configuration(home: Home) -> None:
    (text,) = blocks("With an existing Kafka configuration", "properties")
    write_folder(home.folder, ["localhost"], client_name="alice")
    tls_port = free_ports(2)
    plain_port = tls_port + 1
    file = home.properties(
        text, {"/etc/kafka/secrets": str(home.folder), "kafka.example.com": "localhost", "9093": str(tls_port), "9092": str(plain_port)}
    )
    pem = str(home.folder / "client.pem")
    ca = {"security.protocol": "SSL", "ssl.ca.location": str(home.folder / "ca.pem")}
    (check,) = re.findall(r"`(minibroker config check) server.properties`", section("With an existing Kafka configuration"))
    home.run(f"{check} {file}")
    with home.serving(f"minibroker serve --config {file}"):
        assert topics(tls_port, {**ca, "ssl.certificate.location": pem, "ssl.key.location": pem}) == []
        assert topics(plain_port, {}) == []


def test_logins(home: Home) -> None:
    users, signed = blocks("Logging in by SASL", "properties")
    port = free_ports(1)
    file = home.properties(users, {":9092": f"127.0.0.1:{port}"})
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}
    with home.serving(f"minibroker serve --config {file}"):
        assert topics(port, login) == []

    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key()))
    (home.folder / "keys.json").write_text(json.dumps({"keys": [public]}))
    lines = [line for line in users.splitlines() if line.startswith("listener")][:2]
    file = home.properties(
        "\n".join([*lines, signed]), {":9092": f"127.0.0.1:{port}", "https://issuer.example/keys": f"file://{home.folder}/keys.json"}
    )
    token = jwt.encode(
        {"sub": "alice", "aud": "kafka", "iss": "https://issuer.example", "iat": int(time.time()), "exp": int(time.time()) + 3600},
        key,
        "ES256",
    )
    (home.folder / "token").write_text(token)
    with home.serving(f"minibroker serve --config {file} --data-dir second"):
        words = f"minibroker topics list -b 127.0.0.1:{port} --security-protocol sasl_plaintext --security-mechanism OAUTHBEARER"
        assert home.run(f"{words} --security-password-file {home.folder}/token -o name") == ""
