"""Capture what Apache Kafka 4.3.1 answers in the scenes of streams groups."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.captures.migrations import Sockets
from tests.golden.streams_scenes import GOLDEN, PARTITION_COUNTS, SCENES, SETTINGS, play
from tests.support.kafka_process import KafkaProcess


def capture() -> None:
    answers: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=SETTINGS) as kafka:
        sockets = Sockets(kafka.port)
        sockets.prepare(PARTITION_COUNTS)
        for scene in SCENES:
            print(scene.__name__, file=sys.stderr, flush=True)
            answers[scene.__name__] = play(scene, sockets)
    provenance = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture streams_scenes"}
    GOLDEN.write_text(json.dumps(provenance | {"scenes": answers}, indent=1) + "\n")
