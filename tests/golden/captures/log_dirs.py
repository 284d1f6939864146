"""Capture golden frames of AlterReplicaLogDirs, and its answers, from an Apache Kafka with two log directories.

Starts the broker behind a proxy and asks with franz-go (each version) and Kafka's ReassignPartitionsCommand. Then it plays `SCENES` and
writes log_dirs_kafka_4.3.1.json: for each scene, topic -> partition -> error code. Needs Java with Maven, Go, and the dev extra.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from minibroker.schemas import k34_alter_replica_log_dirs as k34
from tests.golden.admin_scenarios import create
from tests.golden.captures import write_frames
from tests.golden.captures.admin import ask
from tests.golden.captures.clients import HERE, LOG_DIR_KEYS, keep
from tests.support import java
from tests.support.capture_proxy import CaptureProxy
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_port

FILE: Final = HERE / "log_dirs_kafka_4.3.1.json"
REASSIGN_PARTITIONS_COMMAND: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
FRANZ_GO: Final = "franz_go_1.22.2_log_dirs"
JAVA: Final = f"java_{java.KAFKA_VERSION}_log_dirs"
TOPICS: Final = {"golden": 4}

#: Directories with their topics and partitions; {0} and {1} are those of the broker.
SCENES: Final[list[list[tuple[str, list[tuple[str, list[int]]]]]]] = [
    [("{1}", [("golden", [0, 1])])],
    [("{1}", [("golden", [0, 0, 1])])],
    [("{0}", [("golden", [0]), ("golden", [1])])],
    [("{0}", [("golden", [2]), ("none", [0])]), ("{1}", [("golden", [2, 3]), ("none", [1])])],
    [("{1}", [("golden", [7, -1])]), ("/nowhere", [("golden", [0]), ("none", [0])])],
    [("{1}/", [("golden", [0])]), ("relative", [("golden", [1])]), ("", [("golden", [2])])],
    [("{1}", [("x" * 213, [0]), ("x" * 214, [0]), ("a bad name", [0]), ("__cluster_metadata", [0])])],
    [("/nowhere", [("x" * 214, [0])])],
    [("{0}", []), ("{1}", [("golden", [])])],
    [],
]


def request(scene: list[tuple[str, list[tuple[str, list[int]]]]], directories: list[str]) -> k34.Request:
    """One scene for a broker with these directories."""
    return k34.Request(
        dirs=[
            k34.Directory(
                path=path.format(*directories),
                topics=[k34.RequestTopic(name=name, partitions=partitions) for name, partitions in topics],
            )
            for path, topics in scene
        ]
    )


def codes(answer: Any) -> dict[str, dict[str, int]]:
    """Topic -> partition -> error code; keys of JSON are texts."""
    found = {topic.topic_name: {str(each.partition_index): each.error_code for each in topic.partitions} for topic in answer.results}
    return {name: dict(sorted(partitions.items())) for name, partitions in sorted(found.items())}


def reassignment(directory: str) -> str:
    """The plan of the tool: both partitions to one directory."""
    partitions = [{"topic": "golden", "partition": index, "replicas": [1], "log_dirs": [directory]} for index in (0, 1)]
    return json.dumps({"version": 1, "partitions": partitions})


def reassign(bootstrap: str, folder: Path, directory: str) -> None:
    """Move by Kafka's own tool."""
    file = folder / "reassignment.json"
    file.write_text(reassignment(directory))
    at = ("--bootstrap-server", bootstrap, "--reassignment-json-file", str(file))
    for what in ("--execute", "--verify"):
        print(java.run_tool(REASSIGN_PARTITIONS_COMMAND, *at, what))


def capture() -> None:
    """Ask everything and write the files."""
    proxy_port = free_port()

    def unused(_: str) -> None:
        """Each is driven by hand: the directories are arguments."""

    catalogue: dict[str, tuple[Callable[[str], None], str, str]] = {
        FRANZ_GO: (unused, "franz-go 1.22.2", "tests/golden/franz_go log_dirs, each version pinned"),
        JAVA: (unused, f"Apache Kafka's ReassignPartitionsCommand {java.KAFKA_VERSION}", "captures.log_dirs.reassign"),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        directories = [str(folder / "one"), str(folder / "two")]
        settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy_port}", "log.dirs": ",".join(directories)}
        with KafkaProcess(folder, settings=settings) as kafka:
            proxy = CaptureProxy(proxy_port, ("127.0.0.1", kafka.port))
            ask(kafka.port, create("golden", 4, validate_only=False))
            time.sleep(1)
            proxy.label = FRANZ_GO
            command = ["go", "run", ".", f"127.0.0.1:{proxy_port}", "log_dirs", *directories]
            subprocess.run(command, cwd=HERE / "franz_go", check=True)
            proxy.label = JAVA
            reassign(f"127.0.0.1:{proxy_port}", folder, directories[0])
            proxy.close()
            scenes = []
            for scene in SCENES:
                scenes.append(codes(ask(kafka.port, request(scene, directories))))
                time.sleep(1)
    write_frames(keep(proxy.frames, catalogue, LOG_DIR_KEYS))
    provenance = "Apache Kafka 4.3.1, one KRaft node with two log directories; asked by python -m tests.golden capture log_dirs"
    FILE.write_text(json.dumps({"provenance": provenance, "scenes": scenes}, indent=1) + "\n")
