"""docker/compose*.yaml by podman-compose."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer

from minibroker.client.client import Client
from minibroker.registry.client import RegistryClient
from minibroker.spark.session import CONNECTOR, spark_package
from tests.docker.podman import ENVIRONMENT, ROOT, TIMEOUT_S, build_options, logs, podman, podman_code
from tests.support.ports import free_port

FOLDER = ROOT / "docker"
COMPOSE = Path(sys.executable).with_name("podman-compose")
UP_TIMEOUT_S = 240


class Project:
    """A compose project; `with` takes it down with its volumes."""

    def __init__(self, *files: str, environment: dict[str, str] | None = None) -> None:
        self.name = f"minibroker{uuid.uuid4().hex[:8]}"
        self._files = [word for file in files for word in ("-f", str(FOLDER / file))]
        self._environment = {**ENVIRONMENT, **(environment or {})}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.compose("down", "--volumes", "--timeout", "1", check=False)

    def compose(self, *words: str, check: bool = True) -> str:
        """Run podman-compose; what it and the containers printed."""
        call = [str(COMPOSE), "-p", self.name, *self._files, *words]
        done = subprocess.run(call, env=self._environment, capture_output=True, text=True, check=False, timeout=UP_TIMEOUT_S, cwd=FOLDER)
        assert done.returncode == 0 or not check, f"{' '.join(call)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def up(self) -> str:
        """Start its one container; its id, once it is healthy. (podman leaves waiting for that to systemd, which is not everywhere.)"""
        self.compose("up", "--detach", "--no-build")
        container = podman("ps", "--quiet", "--filter", f"label=io.podman.compose.project={self.name}").strip()
        deadline = time.monotonic() + TIMEOUT_S
        while podman_code("healthcheck", "run", container) != 0:
            assert time.monotonic() < deadline, logs(container)
        return container


@pytest.fixture
def compose(image: str) -> Iterator[str]:
    """The image under the name that the files have for it."""
    if not COMPOSE.exists():
        pytest.skip("podman-compose is not installed")
    podman("tag", image, "localhost/minibroker:latest")
    yield image
    podman("untag", "localhost/minibroker:latest", "localhost/minibroker:latest", check=False)


def test_a_broker_for_the_host_and_for_containers(compose: str) -> None:
    port = free_port()
    environment = {"MINIBROKER_PORT": str(port), "KAFKA_CREATE_TOPICS": "orders:2:1"}
    with Project("compose.yaml", environment=environment) as project:
        container = project.up()
        with Client(f"127.0.0.1:{port}") as client:
            client.topic("orders")
            assert [str(address) for address in client.brokers.values()] == [f"localhost:{port}"]
        listed = podman("exec", container, "kafka-broker-api-versions", "--bootstrap-server", "broker:19092")
        assert listed.startswith("broker:19092 (id: 1 rack: null isFenced: false) -> (\n")
        project.compose("down", "--timeout", "5")
        assert project.up() != container  # another one on the same volume
        with Client(f"127.0.0.1:{port}") as client:
            assert len(client.topic("orders").partitions) == 2


def test_a_secured_broker(compose: str, tmp_path: Path) -> None:
    port = free_port()
    with Project("compose.secure.yaml", environment={"MINIBROKER_PORT": str(port), "ALICE_PASSWORD": "another-secret"}) as project:
        container = project.up()  # healthy: the super user has logged in
        podman("cp", f"{container}:/etc/kafka/secrets/tls/ca.pem", str(tmp_path))
        config = {
            "bootstrap.servers": f"localhost:{port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "another-secret",
        }
        outcomes: list[str | None] = []
        producer = Producer(config)
        for topic in ("orders-1", "prices"):
            producer.produce(topic, b"apples", on_delivery=lambda error, _message: outcomes.append(error and error.name()))
            producer.flush(30)
        assert outcomes == [None, "TOPIC_AUTHORIZATION_FAILED"]
        assert "another-secret" not in logs(container)


LINE = 'syntax = "proto3"; message Line { int64 sku = 1; }'


def test_a_schema_registry_with_the_schemas_of_a_folder(compose: str) -> None:
    port, registry_port = free_port(), free_port()
    with Project("compose.registry.yaml", environment={"MINIBROKER_PORT": str(port), "REGISTRY_PORT": str(registry_port)}) as project:
        container = project.up()  # healthy: the registry answers
        registry = RegistryClient(f"http://127.0.0.1:{registry_port}")
        assert registry.get("/subjects") == ["orders-value"]
        registry.post("/subjects/lines-value/versions", {"schema": LINE, "schemaType": "PROTOBUF"})  # by the image's protoc
        for topic, text in (("orders", '{"item":"pears","count":1}'), ("lines", '{"sku":"3"}')):
            there = (topic, "-b", "broker:19092", "-r", "http://localhost:8081")
            produced = ("minibroker", "produce", *there, "--value-schema", f"{topic}-value")
            podman("exec", "-i", container, *produced, stdin=f"{text}\n".encode())
            assert podman("exec", container, "minibroker", "consume", *there, "-e") == f"{text}\n"


def test_integration_tests_of_an_application(compose: str) -> None:
    app = "localhost/minibroker-compose-app:latest"
    podman("build", *build_options(), "-t", app, "-f", str(FOLDER / "compose_app" / "Dockerfile"), str(FOLDER / "compose_app"))
    with Project("compose.test.yaml") as project:
        told = project.compose("up", "--no-build", "--abort-on-container-exit", "--exit-code-from", "tests")
        assert "2 passed" in told, told


def test_spark_beside_it_is_a_valid_file(compose: str) -> None:
    told = Project("compose.yaml", "compose.spark.yaml").compose("config")
    assert "broker:19092" in told
    assert f"apache/spark:{version('pyspark')}" in told


def test_sparks_connector_is_of_its_version_and_kept_where_its_user_may_write() -> None:
    """The user of the image has no home folder; a new volume on a folder of the image belongs to whom the folder belongs."""
    lines = (FOLDER / "spark-defaults.conf").read_text().splitlines()
    settings = dict(line.split(maxsplit=1) for line in lines if not line.startswith("#"))
    assert settings == {"spark.jars.packages": spark_package(CONNECTOR), "spark.jars.ivy": "/opt/spark/work-dir/.ivy2"}
    assert "- spark:/opt/spark/work-dir\n" in (FOLDER / "compose.spark.yaml").read_text()
