"""Kafka Connect, standalone, a file as source and another as sink: what is written to the one is in the other, whoever ends meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.broker_process import BrokerProcess
from tests.support.child_process import ChildProcess
from tests.support.java import CONNECT, jars

pytestmark = [pytest.mark.slow]

TOPIC = "connected"
PATIENCE_S = 150.0
MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"

WORKER = """bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=200
listeners=http://127.0.0.1:0
plugin.discovery=only_scan
consumer.session.timeout.ms=30000
consumer.heartbeat.interval.ms=500
producer.reconnect.backoff.max.ms=200
consumer.reconnect.backoff.max.ms=200
"""
SOURCE = """name=source
connector.class=org.apache.kafka.connect.file.FileStreamSourceConnector
file={folder}/source.txt
topic={topic}
"""
SINK = """name=sink
connector.class=org.apache.kafka.connect.file.FileStreamSinkConnector
file={folder}/sink.txt
topics={topic}
"""


class Connect(ChildProcess):
    """The worker with both connectors, in `folder`."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        libraries = jars(*CONNECT)
        places = {"folder": folder, "bootstrap": bootstrap, "topic": TOPIC}
        files = []
        for name, text in (("worker", WORKER), ("source", SOURCE), ("sink", SINK)):
            files.append(str(folder / f"{name}.properties"))
            Path(files[-1]).write_text(text.format(**places))
        memory = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        command = ["java", *memory, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{libraries}/*", MAIN, *files]
        super().__init__(command, folder / "connect.txt", append=True)


def write(folder: Path, first: int, count: int) -> None:
    with (folder / "source.txt").open("a") as file:
        file.writelines(f"line {number}\n" for number in range(first, first + count))


def read(folder: Path) -> list[str]:
    path = folder / "sink.txt"
    return path.read_text().splitlines() if path.exists() else []


def wait_for(folder: Path, connect: Connect, count: int) -> None:
    """Until so many lines have come through, each after the one before it; a line may come again after a death (at least once)."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := list(dict.fromkeys(read(folder)))) != [f"line {number}" for number in range(count)]:
        assert time.monotonic() < deadline, f"{len(found)} of {count} lines:\n{connect.output}"
        time.sleep(0.05)


@pytest.mark.timeout(600)
def test_file_to_file(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--set", "group.min.session.timeout.ms=1000") as broker:
        write(tmp_path, 0, 500)
        connect = Connect(tmp_path, broker.bootstrap)
        try:
            wait_for(tmp_path, connect, 500)
            assert len(read(tmp_path)) == 500
            broker.kill()
            write(tmp_path, 500, 500)
            broker.restart()
            wait_for(tmp_path, connect, 1000)
            connect.stop()
            size = len(read(tmp_path))
            write(tmp_path, 1000, 500)
            connect.start()
            wait_for(tmp_path, connect, 1500)
            assert len(read(tmp_path)) == size + 500, "stopped in order, nothing comes twice"
            connect.stop()
        finally:
            connect.kill()
        assert broker.stop() == 0, broker.output
        assert "Traceback" not in broker.output
