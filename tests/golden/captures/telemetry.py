"""Capture what an Apache Kafka with a telemetry receiver answers to clients that push their metrics: scenes, and frames of real clients.

Needs Java with Maven, and Go. The scenes go to telemetry_kafka_4.3.1.json. The frames come from a Java producer and consumer, librdkafka
and franz-go, through a proxy.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from minibroker.schemas import k18_api_versions as k18
from minibroker.schemas import k44_incremental_alter_configs as k44
from minibroker.telemetry.payload import PREFIX
from tests.golden import telemetry_scenes as scenes
from tests.golden.captures import write_frames
from tests.golden.captures.clients import HERE, TELEMETRY_KEYS, keep
from tests.golden.telemetry_scenes import ANSWERS, CLIENT_METRICS, MAX_BYTES, Notes, Scenes
from tests.support import java
from tests.support.capture_proxy import CaptureProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_users import KafkaUser
from tests.support.ports import free_port

PROVENANCE = {
    "broker": "Apache Kafka 4.3.1, one KRaft node with the metrics reporter tests/golden/TelemetryReceiver.java",
    "command": "python -m tests.golden capture telemetry",
}
INTERVAL_MS = "500"
RECORDS = 20


def receiver(folder: Path) -> Path:
    """Compile the metrics reporter; return the folder of its classes."""
    source = HERE / "TelemetryReceiver.java"
    subprocess.run(["javac", "-cp", f"{java.kafka_jars()}/*", "-d", str(folder), str(source)], check=True)
    return folder


@contextmanager
def kafka(**settings: str) -> Iterator[int]:
    """Start a Kafka that serves telemetry, unless a setting takes its receiver away; yields its port."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as classes:
        lines = {"metric.reporters": "TelemetryReceiver", "telemetry.max.bytes": str(MAX_BYTES), **settings}
        with KafkaProcess(Path(folder), settings=lines, classes=receiver(Path(classes))) as process:
            yield process.port


class Connections:
    """The connections of the scenes' clients."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port, self._stack = port, stack
        self._of: dict[str, KafkaUser] = {}

    def ask(self, client: str, request: Any) -> Any:
        return self._connection(client).ask(request, client_id=client)

    def reconnect(self, client: str) -> None:
        self._of.pop(client).close()

    def _connection(self, client: str) -> KafkaUser:
        if client not in self._of:
            user = self._of[client] = self._stack.enter_context(KafkaUser(self._port, ""))
            user.ask(k18.Request(client_software_name="scenes", client_software_version="1.2"), client_id=client)
        return self._of[client]


def played(port: int, play: Callable[[Scenes], Notes]) -> Notes:
    with ExitStack() as stack:
        clients = Connections(port, stack)
        return play(Scenes(clients.ask, clients.reconnect, lambda ms: time.sleep(ms / 1000)))


def subscribe_to_all(port: int) -> None:
    """Ask every client for all metrics, twice a second. franz-go does not know that * means all."""
    configs = [
        k44.Config(name=name, config_operation=0, value=value) for name, value in (("metrics", PREFIX), ("interval.ms", INTERVAL_MS))
    ]
    with KafkaUser(port, "") as user:
        resource = k44.Resource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
        assert user.ask(k44.Request(resources=[resource], validate_only=False)).responses[0].error_code == 0
    time.sleep(1)


def java_clients(bootstrap: str) -> None:
    lines = "".join(f"k{number}\tv{number}\n" for number in range(RECORDS))
    at = ("--bootstrap-server", bootstrap, "--topic", "telemetry")
    java.run_tool(java.CONSOLE_PRODUCER, *at, "--reader-property", "parse.key=true", stdin=lines)
    consumed = ("--from-beginning", "--group", "telemetry", "--timeout-ms", "3000")
    java.run_tool(java.CONSOLE_CONSUMER, *at, *consumed)


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "rdkafka"})
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        producer.produce("telemetry", b"value")
        producer.poll(0.1)
    producer.flush()
    del producer
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "telemetry-rdkafka", "auto.offset.reset": "earliest"})
    consumer.subscribe(["telemetry"])
    deadline = time.monotonic() + 4
    while time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.close()


def franz_go(bootstrap: str) -> None:
    subprocess.run(["go", "run", ".", bootstrap, "telemetry"], cwd=HERE / "franz_go", check=True)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """Label of a frame -> what drives the client, its name and version for people, the command."""
    from importlib.metadata import version

    librdkafka_version = version("confluent-kafka")
    return {
        f"java_{java.KAFKA_VERSION}": (
            java_clients,
            f"Apache Kafka's console producer and consumer {java.KAFKA_VERSION}",
            "captures.telemetry.java_clients",
        ),
        f"librdkafka_{librdkafka_version}": (
            librdkafka,
            f"confluent-kafka {librdkafka_version} (librdkafka)",
            "captures.telemetry.librdkafka",
        ),
        "franz_go_1.22.2": (franz_go, "franz-go 1.22.2", "tests/golden/franz_go telemetry"),
    }


def capture_frames(port: int, proxy_port: int) -> None:
    """Write the frames of the clients."""
    proxy = CaptureProxy(proxy_port, ("127.0.0.1", port))
    catalogue = clients()
    for label, (drive, client, _) in catalogue.items():
        proxy.label = label
        before = len(proxy.frames)
        drive(f"127.0.0.1:{proxy_port}")
        found = [each for each in proxy.frames[before:] if each.api_key in TELEMETRY_KEYS]
        print(f"{client}: {len(found)} of {len(proxy.frames) - before} frames", [len(each.data) for each in found], flush=True)
    proxy.close()
    write_frames(keep(proxy.frames, catalogue, TELEMETRY_KEYS))


def capture() -> None:
    found: dict[str, Notes] = {}
    with kafka() as port:
        found["with a receiver"] = played(port, scenes.play)
        found["patterns of Java"] = played(port, scenes.play_java_patterns)
    with kafka(**{"metric.reporters": ""}) as port:
        found["without a receiver"] = played(port, scenes.play_without_receiver)
    lines = ",\n".join(
        f"  {json.dumps(title)}: [\n" + ",\n".join(f"    {json.dumps(note)}" for note in notes) + "\n  ]" for title, notes in found.items()
    )
    ANSWERS.write_text(f'{{"provenance": {json.dumps(PROVENANCE)},\n{lines}\n}}\n')
    proxy_port = free_port()
    with kafka(**{"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}", "telemetry.max.bytes": "1048576"}) as port:
        subscribe_to_all(port)
        capture_frames(port, proxy_port)
