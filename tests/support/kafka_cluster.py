"""Three nodes of Apache Kafka, for what one alone cannot show: from the jars of tests/support/java.py, on free ports of 127.0.0.1."""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.java import SHORT_LIVED, class_data, kafka_jars
from tests.support.kafka_process import CLUSTER_ID, READY, READY_TIMEOUT_S
from tests.support.ports import free_port

RACKS = ("a", "b", "c")
IDS = (1, 2, 3)

_PROPERTIES = """process.roles={roles}
node.id={node}
broker.rack={rack}
controller.quorum.voters={voters}
listeners={listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}
"""


class KafkaCluster:
    """Nodes 1, 2 and 3 in racks a, b and c; all up when the constructor returns, gone when the context ends.

    `settings` are more lines of each server.properties; `voters` are the nodes that are controllers, too: one that is to stand still had
    better be none.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, voters: Sequence[int] = IDS) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        ports, controllers = {node: free_port() for node in IDS}, {node: free_port() for node in voters}
        self.addresses = [f"127.0.0.1:{ports[node]}" for node in IDS]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._said = {node: folder / f"{node}.txt" for node in IDS}
        jars = kafka_jars()
        java = ["java", "-Xmx256m", *SHORT_LIVED, *class_data(jars), "-cp", f"{jars}/*"]
        for node, rack in zip(IDS, RACKS, strict=True):
            listeners = [f"PLAINTEXT://127.0.0.1:{ports[node]}"]
            if node in controllers:
                listeners.append(f"CONTROLLER://127.0.0.1:{controllers[node]}")
            text = _PROPERTIES.format(
                roles="broker,controller" if node in controllers else "broker",
                node=node,
                rack=rack,
                voters=",".join(f"{voter}@127.0.0.1:{port}" for voter, port in controllers.items()),
                listeners=",".join(listeners),
                port=ports[node],
                folder=folder / str(node),
            )
            properties = folder / f"{node}.properties"
            properties.write_text(text + "".join(f"{name}={value}\n" for name, value in (settings or {}).items()))
            tool = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
            subprocess.run(tool, check=True, capture_output=True)
            with self._said[node].open("wb") as output:
                self._processes[node] = subprocess.Popen(
                    [*java, "kafka.Kafka", str(properties)], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
                )
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def stop(self, node: int) -> None:
        """Ask a node to leave in order; it has not left yet when this returns."""
        self._processes[node].send_signal(signal.SIGTERM)

    def start(self, node: int) -> None:
        """Let a node that was asked to leave come back; it has not yet when this returns."""
        before = self._processes[node]
        before.wait(READY_TIMEOUT_S)
        with self._said[node].open("ab") as output:
            self._processes[node] = subprocess.Popen(
                before.args, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=self._folder.name
            )

    def freeze(self, node: int) -> None:
        """Let a node stand still: its connections stay open, and it answers nothing."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        """Let it go on."""
        self._processes[node].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End all nodes, and remove what they wrote."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        for node, said in self._said.items():
            while READY not in (words := said.read_text(errors="replace")):
                assert self._processes[node].poll() is None, f"node {node} ended:\n{words[-3000:]}"
                assert time.monotonic() < deadline, f"node {node} is not ready within {READY_TIMEOUT_S} s:\n{words[-3000:]}"
                time.sleep(0.1)
