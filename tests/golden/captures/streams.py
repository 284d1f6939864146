"""Capture the golden frames of streams groups (KIP-1071).

Starts an Apache Kafka behind a proxy. Kafka Streams counts words under `group.protocol=streams`, one instance first, then two, then one
again; Kafka's StreamsGroupCommand looks at the group and changes it. `records/streams_kafka_4.3.1.json` gets the segments of
`__consumer_offsets`, and how DumpLogSegments prints them. WIRE_LOG gets the conversation, one frame a line.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path

from tests.clients.spoken_clients import HERE as CLIENTS
from tests.golden.captures import dumped, kafka_behind_proxy, write_frames, write_wire_log
from tests.golden.captures.clients import STREAMS_KEYS, keep
from tests.golden.captures.groups import SHOWN_KEYS, tool
from tests.support import java

LOGS = Path(__file__).parents[1] / "records" / "streams_kafka_4.3.1.json"
PROGRAM = CLIENTS / "java" / "WordCount.java"
GROUP = "word-count"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.num.standby.replicas": "1",
}


class Instance:
    """One instance of the application, of one member."""

    def __init__(self, folder: Path, bootstrap: str, name: str, port: int) -> None:
        libraries = java.jars(*java.STREAMS)
        settings = ["group.protocol=streams", f"application.server=127.0.0.1:{port}", f"client.id={name}", "commit.interval.ms=500"]
        command = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{libraries}/*"]
        words = [str(PROGRAM), bootstrap, "lines", "counts", str(folder / name), *settings, "internal.leave.group.on.close=true"]
        self._process = subprocess.Popen([*command, *words], stdin=subprocess.PIPE)

    def close(self) -> None:
        """Let it leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def application(folder: Path, bootstrap: str) -> None:
    """Two instances, the second of which comes later and goes first."""
    first = Instance(folder, bootstrap, "one", 7001)
    time.sleep(15)
    second = Instance(folder, bootstrap, "two", 7002)
    time.sleep(15)
    look(bootstrap)
    second.close()
    time.sleep(6)
    first.close()


def look(bootstrap: str) -> None:
    """StreamsGroupCommand upon a group that is alive."""
    for options in (
        ("--list",),
        ("--list", "--state"),
        ("--describe", "--group", GROUP),
        ("--describe", "--group", GROUP, "--members"),
        ("--describe", "--group", GROUP, "--members", "--verbose"),
        ("--describe", "--group", GROUP, "--state", "--verbose"),
        ("--describe", "--group", "absent"),
        ("--delete", "--group", GROUP),
    ):
        tool(bootstrap, "streams.StreamsGroupCommand", *options)


def tools(bootstrap: str) -> None:
    """StreamsGroupCommand upon a group whose members are gone."""
    for options in (
        ("--describe", "--group", GROUP),
        ("--reset-offsets", "--group", GROUP, "--input-topic", "lines", "--to-earliest", "--execute"),
        ("--delete-offsets", "--group", GROUP, "--input-topic", "lines"),
        ("--delete", "--group", GROUP),
        ("--list",),
    ):
        tool(bootstrap, "streams.StreamsGroupCommand", *options)


def prepare(bootstrap: str) -> None:
    """The topics of the application, with some lines."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, 3, 1) for name in ("lines", "counts")]).values():
        made.result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        producer.produce("lines", f"word-{number % 7} word-{number % 5}", partition=number % 3)
    producer.flush()


def capture(wire_log: str = "") -> None:
    client = f"Apache Kafka's Streams {java.KAFKA_VERSION}"
    catalogue = {
        f"java_{java.KAFKA_VERSION}_streams": (lambda _: None, client, "WordCount.java group.protocol=streams"),
        f"java_{java.KAFKA_VERSION}_streams_tools": (
            lambda _: None,
            f"Apache Kafka's Java tools {java.KAFKA_VERSION}",
            "captures.streams.tools",
        ),
    }
    labels = list(catalogue)
    with tempfile.TemporaryDirectory() as folder, kafka_behind_proxy(SETTINGS) as (kafka, proxy):
        bootstrap = f"127.0.0.1:{proxy.port}"
        prepare(bootstrap)
        proxy.frames.clear()
        proxy.label = labels[0]
        application(Path(folder), bootstrap)
        proxy.label = labels[1]
        tools(bootstrap)
        frames = list(proxy.frames)
        kafka.stop()
        logs = dumped(kafka.data_dir)
    if wire_log:
        write_wire_log(wire_log, frames, SHOWN_KEYS)
    write_frames(keep(frames, catalogue, STREAMS_KEYS))
    head = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture streams", "decoded by": "DumpLogSegments"}
    LOGS.write_text(json.dumps(head | {"segments": logs}, indent=1) + "\n")
