"""Three nodes of Apache Kafka on free ports of 127.0.0.1, from the jars of tests/support/java.py."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.child_process import ChildProcess
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
    """Nodes 1, 2 and 3 in racks a, b and c. They are ready when the constructor returns, and killed when the context ends.

    Args:
        settings: more lines of each server.properties.
        voters: the nodes that are also controllers; leave out one that you will freeze.
    """

    def __init__(self, settings: Mapping[str, str] | None = None, *, voters: Sequence[int] = IDS) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        ports, controllers = {node: free_port() for node in IDS}, {node: free_port() for node in voters}
        self.addresses = [f"127.0.0.1:{ports[node]}" for node in IDS]
        self._processes: dict[int, ChildProcess] = {}
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
            command = [*java, "kafka.Kafka", str(properties)]
            self._processes[node] = ChildProcess(command, folder / f"{node}.txt", append=True, cwd=folder)
        try:
            for process in self._processes.values():
                process.wait_for(READY, READY_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def stop(self, node: int) -> None:
        """Send SIGTERM to a node, and do not wait: it leaves the cluster in order."""
        self._processes[node].send_signal(signal.SIGTERM)

    def start(self, node: int) -> None:
        """Start a node again once it has stopped, and do not wait until it is ready."""
        self._processes[node].wait(READY_TIMEOUT_S)
        self._processes[node].start()

    def freeze(self, node: int) -> None:
        """Pause a node: its connections stay open, and it answers nothing."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def thaw(self, node: int) -> None:
        """Resume a paused node."""
        self._processes[node].send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill all nodes, and remove what they wrote."""
        for process in self._processes.values():
            process.kill()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
