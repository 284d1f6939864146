"""Play the scenes of streams groups before Apache Kafka 4.3.1, and write down what it said.

python -m tests.golden.capture_streams_scenes
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.capture_migrations import Sockets
from tests.golden.streams_scenes import GOLDEN, PARTITION_COUNTS, SCENES, SETTINGS, play
from tests.support.kafka_process import KafkaProcess


def main() -> None:
    said: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=SETTINGS) as kafka:
        sockets = Sockets(kafka.port)
        sockets.prepare(PARTITION_COUNTS)
        for scene in SCENES:
            print(scene.__name__, file=sys.stderr, flush=True)
            said[scene.__name__] = play(scene, sockets)
    provenance = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden.capture_streams_scenes"}
    GOLDEN.write_text(json.dumps(provenance | {"scenes": said}, indent=1) + "\n")


if __name__ == "__main__":
    main()
