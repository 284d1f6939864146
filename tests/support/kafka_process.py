"""Apache Kafka as a child process, from the jars of tests/support/java.py: tests compare minibroker with it."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.child_process import ChildProcess
from tests.support.java import CLASS_DATA, SHORT_LIVED, class_data, kafka_jars
from tests.support.ports import free_port

READY = "Kafka Server started"
READY_TIMEOUT_S = 240.0
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

PROPERTIES = """process.roles=broker,controller
node.id=1
{quorum}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{more_listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}{more_listeners}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={data_dir}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaProcess:
    """One KRaft node with its data in `folder`/data. It is ready when the constructor returns, and killed when the context ends.

    Args:
        folder: where its files go; use pytest's tmp_path.
        data_dir: a directory that another broker filled; without it, Kafka formats a new one.
        settings: more lines of its server.properties.
        features: feature levels that are finalized when it formats.
        static_voters: name the voters in the configuration, as in clusters made before Kafka 3.9; else they are in the log (KIP-853).
        port: 0 takes a free one.
        listeners: more listeners, NAME://HOST:PORT.
        jvm_options: more options of its JVM, the last of which win.
        classes: a folder of compiled plugins.
    """

    def __init__(
        self,
        folder: Path,
        data_dir: Path | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        features: Mapping[str, int] | None = None,
        static_voters: bool = False,
        port: int = 0,
        listeners: Sequence[str] = (),
        jvm_options: Sequence[str] = (),
        classes: Path | None = None,
    ) -> None:
        self.data_dir = data_dir or folder / "data"
        self.port, controller_port = port or free_port(), free_port()
        quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}"
        if static_voters:
            quorum = f"controller.quorum.voters=1@127.0.0.1:{controller_port}"
        properties = folder / "server.properties"
        more = "".join(f",{listener}" for listener in listeners)
        ports = {"port": self.port, "controller_port": controller_port}
        text = PROPERTIES.format(quorum=quorum, data_dir=self.data_dir, more_listeners=more, **ports)
        properties.write_text(text + "".join(f"{name}={value}\n" for name, value in (settings or {}).items()))
        keep_class_data(kafka_jars())
        java = [
            "java",
            "-Xmx512m",
            *SHORT_LIVED,
            *class_data(kafka_jars()),
            "-cp",
            f"{kafka_jars()}/*" + (f":{classes}" if classes else ""),
        ]
        if data_dir is None:
            tool = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties)]
            for name, level in (features or {}).items():
                tool += ["--feature", f"{name}={level}"]
            subprocess.run(tool, check=True, capture_output=True)
        command = [*java, *jvm_options, "kafka.Kafka", str(properties)]
        self._process = ChildProcess(command, folder / "out.txt", cwd=folder)
        self._process.wait_for(READY, READY_TIMEOUT_S)

    def start(self) -> None:
        """Start it again after `stop` or `kill`, on the same folder and port."""
        self._process.start()
        self._process.wait_for(READY, READY_TIMEOUT_S)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()


def keep_class_data(jars: Path) -> None:
    """Archive the classes of a Kafka that starts and stops once. One process does it at a time; if it fails, all run without an archive."""
    tried = jars / f".{CLASS_DATA}-tried"
    with (jars / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tried.exists():
            return
        tried.touch()  # KafkaProcess below calls this function again
    new = jars / f"{CLASS_DATA}.new"
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), jvm_options=[f"-XX:ArchiveClassesAtExit={new}"]) as kafka:
        kafka.stop()
    if new.exists():
        new.replace(jars / CLASS_DATA)
