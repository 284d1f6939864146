"""The image, built and run for real: what it promises in docs/container.md."""

from __future__ import annotations

import json
import re
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker.cli.health_check import check_health
from minibroker.client.client import Client
from minibroker.client.transport import Address, Deadline
from tests.docker.podman import TIMEOUT_S, Container, podman, podman_code
from tests.support.soak import IS_SOAK

SIZE_MAX_BYTES = 165_000_000  #: of which 19 MB are the cryptography library, 6 MB metrics and console, 14 MB the registry
ELSEWHERE = "/home/appuser/elsewhere"


def test_size_and_time_to_ready(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    size = int(podman("image", "inspect", "--format", "{{.Size}}", image))
    times_s = []
    for _ in range(3):
        with Container(image) as container:
            times_s.append(time.monotonic() - container.started_s)
    with capsys.disabled():
        print(f"\nimage: {size / 1e6:.0f} MB; podman run to the ready line: {', '.join(f'{each:.2f}' for each in times_s)} s")
    assert size < SIZE_MAX_BYTES


def warnings(container: Container) -> list[str]:
    """Return what its log warns of, apart from what a busy machine causes."""
    lines = [line for line in container.logs().splitlines() if "WARNING" in line and "held the event loop" not in line]
    return [line.partition(": ")[2] for line in lines]


@pytest.fixture
def network() -> Iterator[str]:
    name = f"minibroker-{uuid.uuid4().hex[:8]}"
    podman("network", "create", name)
    yield name
    podman("network", "rm", "--force", name, check=False)


def test_without_any_setting_it_serves_the_host_and_other_containers(image: str, network: str) -> None:
    with Container(image, options=["--network", network]) as container:
        inside = container.run("kafka-topics.sh", "--bootstrap-server", "localhost:9092", "--create", "--topic", "orders")
        assert inside == "Created topic orders.\n"
        elsewhere = ["kafka-topics", "--bootstrap-server", f"{container.name}:19092", "--list"]
        listed = podman("run", "--rm", "--network", network, image, *elsewhere)
        assert listed == "orders\n"
        text = container.logs()
        assert re.search(r"ready: PLAINTEXT://localhost:9092, DOCKER://[\d.]+:19092", text), text
        assert container.run("id", "-u").strip() == "1000"
        assert container.run("hostname", "-i").strip()
        build = "compiled" if IS_SOAK else "pure Python"
        assert re.match(rf"minibroker \S+ \({build}, CPython 3\.14\.", container.run("minibroker", "--version"))


def test_settings_come_from_a_file_and_from_the_environment_which_wins(image: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"num.partitions=3\nlog.retention.ms=1111\nmessage.max.bytes=2000\nlog.dirs={ELSEWHERE}\n")
    tmp_path.chmod(0o755)
    environment = {
        "KAFKA_LOG_RETENTION_MS": "2222",
        "KAFKA_CFG_MESSAGE_MAX_BYTES": "3000",
        "KAFKA_BROKER_RACK": "a",
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_OPTS": "-Dx=y",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_NUM_PARTITONS": "4",
    }
    with Container(image, environment=environment, files={"/mnt/shared/config:ro": tmp_path}) as container:
        described = container.run("kafka-configs", "--bootstrap-server", "localhost:9092", "--broker", "1", "--describe", "--all")
        values = dict(re.findall(r"^  ([\w.]+)=(\S*) sensitive", described, re.MULTILINE))
        wanted = {
            "num.partitions": "3",
            "log.retention.ms": "2222",
            "message.max.bytes": "3000",
            "broker.rack": "a",
            "log.dirs": ELSEWHERE,
        }
        assert {name: values[name] for name in wanted} == wanted
        assert "4L6g3nShT-eMCtK--X86sw" in container.run("kafka-cluster", "cluster-id", "--bootstrap-server", "localhost:9092")
        assert warnings(container) == ["unknown property num.partitons (KAFKA_NUM_PARTITONS) is ignored: did you mean num.partitions?"]
        assert "healthy" in container.run("minibroker", "container", "--health")


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    folder = tmp_path / "seed"
    folder.mkdir()
    (folder / "words.txt").write_text("one\ntwo\n")
    order = {"key": "ann", "value": "apples", "headers": {"origin": "seed"}, "partition": 2, "timestamp": 1_357_034_400_000}
    (folder / "orders.jsonl").write_text(json.dumps(order) + "\n")
    return folder


def test_topics_and_records_are_there_before_anybody_connects_and_once(image: str, seed: Path) -> None:
    volume = f"minibroker-{seed.parent.name}".replace("_", "-")
    environment = {"KAFKA_CREATE_TOPICS": "orders:3:1,users:2:1:compact", "MINIBROKER_SERVE_OPTIONS": "--set num.partitions=5"}
    environment |= {"KAFKA_LOG_RETENTION_MS": "-1"}  # the order is of long ago
    files: dict[str, Path | str] = {"/var/lib/kafka/data": volume, "/mnt/shared/seed:ro": seed}
    offsets = ("kafka-get-offsets", "--bootstrap-server", "localhost:9092")
    there = "orders:0:0\norders:1:0\norders:2:1\nusers:0:0\nusers:1:0\nwords:0:0\nwords:1:0\nwords:2:0\nwords:3:0\nwords:4:0\n"
    try:
        with Container(image, environment=environment, files=files) as container:
            told = container.run(
                "kafka-console-consumer", *offsets[1:], "--topic", "orders", "--from-beginning", "--max-messages", "1", *PARTS
            )
            assert told == "CreateTime:1357034400000\tPartition:2\torigin:seed\tann\tapples\n"
            assert re.sub(r"(words:\d):2", r"\1:0", container.run(*offsets)).replace("__", "") == there
            assert "cleanup.policy=compact" in container.run("kafka-topics", *offsets[1:], "--describe", "--topic", "users")
            container.run("kafka-console-producer", *offsets[1:], "--topic", "users", "--property", "parse.key=true", stdin="ann\tlater\n")
            assert container.stop() == 0
            assert not warnings(container)
        with Container(image, environment=environment, files=files) as container:  # another container on the same data
            assert "created topic" not in container.logs()
            found = container.run(*offsets)
            assert sum(int(line.rpartition(":")[2]) for line in found.splitlines()) == 4
            assert container.run("sh", "-c", "ls -A /var/lib/kafka/data | grep -c unfinished || true").strip() == "0"
    finally:
        podman("volume", "rm", "--force", volume, check=False)


PARTS = [word for part in ("timestamp", "partition", "headers", "key") for word in ("--property", f"print.{part}=true")]


def test_several_brokers_and_replicas_and_a_lab(image: str) -> None:
    """The lab is ruled from the host, by the port that it is mapped to, and from within."""
    environment = {"MINIBROKER_SERVE_OPTIONS": "--brokers 3 --lab-port 8083 --lab-host 0.0.0.0", "KAFKA_CREATE_TOPICS": "orders:3:3"}
    with Container(image, environment=environment, ports=[8083]) as container:
        described = container.run("kafka-topics", "--bootstrap-server", "localhost:9092", "--describe", "--topic", "orders")
        assert sorted(re.findall(r"Leader: (\d)", described)) == ["1", "2", "3"]
        assert "ReplicationFactor: 3" in described
        ask_lab(container.port(8083), "leaders.move", topic="orders", partition=1, to=2)
        rule = {"kind": "error", "api": "ListOffsets", "error": "TOPIC_AUTHORIZATION_FAILED", "often": {"times": 1}}
        fault = ask_lab(container.port(8083), "faults.inject", rule=rule)
        failed = container.run("sh", "-c", "kafka-get-offsets --bootstrap-server localhost:9092 --topic orders 2>&1 || true")
        assert "TOPIC_AUTHORIZATION_FAILED" in failed
        assert ask_lab(container.port(8083), "faults.state", **fault)["hits"] == 1
        told = container.run("minibroker", "lab", "--lab-url", "http://localhost:8083", "leaders", "describe", "orders", "1", "-o", "json")
        assert json.loads(told)[0]["leader"] == 2


def ask_lab(port: int, command: str, **arguments: Any) -> Any:
    """As any language can: a POST of JSON."""
    body = json.dumps(arguments).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{command}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310  a container's
        return json.load(answer)["result"]


def test_health_is_asked_of_the_broker_itself(image: str) -> None:
    with Container(image, "sleep", "60", ready=None) as container:
        assert podman_code("healthcheck", "run", container.name) == 1
        container.run("sh", "-c", "minibroker container >log 2>&1 & echo started")
        deadline = time.monotonic() + TIMEOUT_S
        while podman_code("healthcheck", "run", container.name) != 0:
            assert time.monotonic() < deadline, container.run("cat", "log")
        assert container.run("kafka-server-stop.sh") == ""
        while podman_code("healthcheck", "run", container.name) == 0:
            assert time.monotonic() < deadline


def test_any_user_on_a_read_only_root_with_old_names_and_a_wrong_setting(image: str) -> None:
    options = ["--user", "12345:0", "--read-only", "--read-only-tmpfs=false"]
    old = {"KAFKA_ADVERTISED_HOST_NAME": "localhost", "KAFKA_ADVERTISED_PORT": "9095"}
    with Container(image, "/etc/confluent/docker/run", environment=old, options=options, ports=[9095]) as container:
        found = check_health(Address("127.0.0.1", container.port(9095)), Deadline(30_000))
        assert found.log_dir_count == 1
        lines = [line for line in container.logs().splitlines() if line.startswith("Warning: ") or " WARNING " in line]
        (line,) = lines
        assert line.startswith("Warning: KAFKA_ADVERTISED_HOST_NAME=localhost and KAFKA_ADVERTISED_PORT=9095: Kafka 4 does not know these")
        assert "used as KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9095" in line
    with Container(image, environment={"KAFKA_CREATE_TOPICS": "orders:x"}, ready=None) as container:
        assert podman("wait", container.name).strip() == "1"
        assert container.logs().splitlines()[-1].startswith("Error: KAFKA_CREATE_TOPICS: 'orders:x' is not name:partitions:replicas")


def test_compose_files_for_confluents_image_name_only_advertised_listeners(image: str) -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:29092,PLAINTEXT_HOST://localhost:9092",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT",
        "KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181",
        "KAFKA_BROKER_ID": "7",
    }
    with Container(image, environment=environment, ports=[29092]) as container:
        container.run("cub", "kafka-ready", "-b", "localhost:9092", "1", "20")
        container.run("nc", "-z", "localhost", "29092")
        assert "(id: 7 rack: null" in container.run("/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server", "localhost:9092")
        with Client(f"127.0.0.1:{container.port(29092)}") as client:
            client.metadata([])
            assert {node: str(address) for node, address in client.brokers.items()} == {7: "broker:29092"}
