"""Capture what Apache Kafka answers to clients that log in by SASL: scenes (sasl_scenes.py), and frames of clients.

Writes sasl_kafka_4.3.1.json, and the golden frames of SaslHandshake and SaslAuthenticate. Needs Java with Maven, Go and the dev extra.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from minibroker.schemas import k17_sasl_handshake, k36_sasl_authenticate
from tests.golden.captures import drive_clients, write_frames
from tests.golden.captures.clients import HERE, keep
from tests.golden.sasl_scenes import Ports, answers, make_users, properties
from tests.support import java
from tests.support.capture_proxy import Captured, CaptureProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_ports

FILE = Path(__file__).parents[1] / "sasl_kafka_4.3.1.json"
KEYS = {k17_sasl_handshake.API_KEY, k36_sasl_authenticate.API_KEY}
LOGIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}
FRANZ_GO = ("franz_go_1.22.2", "franz-go 1.22.2", "tests/golden/franz_go sasl, each version pinned")
PYTHON_LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "secret",
}


def librdkafka(bootstrap: str) -> None:
    from confluent_kafka.admin import AdminClient

    AdminClient({"bootstrap.servers": bootstrap, **LOGIN}).list_topics(timeout=10)


def kafka_python(bootstrap: str) -> None:
    import kafka

    kafka.KafkaAdminClient(bootstrap_servers=bootstrap, **PYTHON_LOGIN).close()


def aiokafka(bootstrap: str) -> None:
    async def connect() -> None:
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, **PYTHON_LOGIN)
        await admin.start()
        await admin.close()

    asyncio.run(connect())


def java_tool(bootstrap: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        for password in ("secret", "wrong"):
            jaas = f'{module} required username="alice" password="{password}";'
            text = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
            Path(file.name).write_text(text)
            with contextlib.suppress(AssertionError, subprocess.SubprocessError):
                java.run_tool(java.TOPIC_COMMAND, "--bootstrap-server", bootstrap, "--command-config", file.name, "--list", check=False)


def clients() -> dict[str, tuple[Callable[[str], None], str, str]]:
    """Label of a frame -> what drives the client, its name and version for people, the command."""
    return {
        "kafka_python_3.0.12": (kafka_python, "kafka-python 3.0.12", "captures.sasl.kafka_python"),
        "aiokafka_0.14.0": (aiokafka, "aiokafka 0.14.0", "captures.sasl.aiokafka"),
        "librdkafka_2.16.1": (librdkafka, "confluent-kafka 2.16.1 (librdkafka)", "captures.sasl.librdkafka"),
        f"java_{java.KAFKA_VERSION}": (java_tool, f"Apache Kafka's TopicCommand {java.KAFKA_VERSION}", "captures.sasl.java_tool"),
    }


def every_version(proxy_port: int, port: int) -> list[Captured]:
    """Return frames of each version, which franz-go sends to the listener without SASL."""
    proxy = CaptureProxy(proxy_port, ("127.0.0.1", port))
    proxy.label = FRANZ_GO[0]
    subprocess.run(["go", "run", ".", f"127.0.0.1:{proxy_port}", "sasl"], cwd=HERE / "franz_go", check=True)
    proxy.close()
    return proxy.frames


def capture() -> None:
    """Run and write."""
    plain = free_ports(6)
    sasl, reauth, proxy_port, plain_proxy, controller = range(plain + 1, plain + 6)
    ports = Ports(plain, sasl, reauth)
    settings = dict(properties(ports))
    settings["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
    settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
    settings["advertised.listeners"] = settings["advertised.listeners"].replace(f":{sasl}", f":{proxy_port}")
    settings["advertised.listeners"] = settings["advertised.listeners"].replace(f":{plain},", f":{plain_proxy},")
    catalogue = clients()
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=settings, port=plain):
        make_users(ports)
        proxy = CaptureProxy(proxy_port, ("127.0.0.1", sasl))
        drive_clients(proxy, catalogue)
        proxy.close()
        frames = proxy.frames + every_version(plain_proxy, plain)
        found = answers(ports)
    write_frames(keep(frames, catalogue | {FRANZ_GO[0]: (lambda _: None, *FRANZ_GO[1:])}, KEYS))
    provenance = "Apache Kafka 4.3.1, one KRaft node; asked by python -m tests.golden capture sasl"
    written = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in found.items())
    FILE.write_text(f'{{"provenance": {json.dumps(provenance)}, "answers": {{\n{written}\n}}}}\n')
