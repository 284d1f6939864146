"""Apache Kafka itself as a child process, from the jars of tests/support/java.py: what our commands must speak to as well as to us."""

from __future__ import annotations

import fcntl
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.java import CLASS_DATA, SHORT_LIVED, class_data, kafka_jars
from tests.support.ports import free_port

READY = "Kafka Server started"
STOP_TIMEOUT_S = 180.0
READY_TIMEOUT_S = 240.0
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

PROPERTIES = """process.roles=broker,controller
node.id=1
{quorum}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
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
    """One KRaft node whose data are in `folder`/data; up when the constructor returns, gone when the context ends.

    With `data_dir` it opens a directory that another broker filled, instead of formatting one of its own. With `static_voters` its
    configuration says who votes, as in clusters made before Kafka 3.9; else the log does (KIP-853).
    `settings` are more lines of its server.properties; `features` are finalized when it formats. `port`: a fixed one; 0 takes a free one.
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
        jvm_options: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir or folder / "data"
        self.port, controller_port = port or free_port(), free_port()
        quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}"
        if static_voters:
            quorum = f"controller.quorum.voters=1@127.0.0.1:{controller_port}"
        self._output = folder / "out.txt"
        properties = folder / "server.properties"
        text = PROPERTIES.format(quorum=quorum, port=self.port, controller_port=controller_port, data_dir=self.data_dir)
        properties.write_text(text + "".join(f"{name}={value}\n" for name, value in (settings or {}).items()))
        keep_class_data(kafka_jars())
        java = ["java", "-Xmx512m", *SHORT_LIVED, *class_data(kafka_jars()), "-cp", f"{kafka_jars()}/*"]
        if data_dir is None:
            tool = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(properties)]
            for name, level in (features or {}).items():
                tool += ["--feature", f"{name}={level}"]
            subprocess.run(tool, check=True, capture_output=True)
        self._command = [java[0], *jvm_options, *java[1:], "kafka.Kafka", str(properties)]
        self.start()

    def start(self) -> None:
        """Also again, after `stop` or `kill`: on the same folder and port."""
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self._output.parent
            )
        self._wait_until_ready()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while READY not in self._output.read_text(errors="replace"):
            words = self._output.read_text(errors="replace")[-3000:]
            assert self._process.poll() is None, f"Kafka ended with {self._process.returncode}:\n{words}"
            if time.monotonic() > deadline:
                self._process.kill()
                raise AssertionError(f"Kafka is not ready within {READY_TIMEOUT_S} s:\n{words}")
            time.sleep(0.1)


def keep_class_data(jars: Path) -> None:
    """Let a Kafka start and end once, by one process at a time, and keep its classes; where that does not work all do without."""
    tried = jars / f".{CLASS_DATA}-tried"
    with (jars / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tried.exists():
            return
        tried.touch()  # the one that trains comes here again
    new = jars / f"{CLASS_DATA}.new"
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), jvm_options=[f"-XX:ArchiveClassesAtExit={new}"]) as kafka:
        kafka.stop()
    if new.exists():
        new.replace(jars / CLASS_DATA)
