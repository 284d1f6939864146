"""Capture how Apache Kafka changes TLS and SASL while it runs (tls_change_scenes.py). Writes tls_changes_kafka_4.3.1.json. Needs Java."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from tests.golden.tls_change_scenes import Files, Ports, Scene, properties, written
from tests.support.kafka_process import KafkaProcess
from tests.support.ports import free_ports

FILE = Path(__file__).parents[1] / "tls_changes_kafka_4.3.1.json"


def capture() -> None:
    """Run and write."""
    plain = free_ports(6)
    ports, controller = Ports(*range(plain, plain + 5)), plain + 5
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as secrets:
        files = Files(Path(secrets))
        settings = dict(properties(ports, files.folder))
        settings["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller}"
        with KafkaProcess(Path(folder), settings=settings, port=plain):
            # Kafka answers before the broker has read the change from the metadata log; there is no event to wait for.
            found = dict(Scene(ports, files, lambda: time.sleep(0.7)).outcomes())
    provenance = "Apache Kafka 4.3.1, one KRaft node, Java 17; asked by python -m tests.golden capture tls_changes"
    FILE.write_text(f'{{"provenance": {json.dumps(provenance)}, "outcomes": {{\n{written(found)}\n}}}}\n')
