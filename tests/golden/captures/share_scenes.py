"""Capture what Apache Kafka 4.3.1 answers in the scenes of share partitions.

`records/share_state_kafka_4.3.1.json` gets the segments of `__share_group_state`, and how DumpLogSegments prints them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.golden.captures import dumped
from tests.golden.captures.migrations import Sockets
from tests.golden.share_scenes import SCENES, SETTINGS, play
from tests.support.kafka_process import KafkaProcess

GOLDEN = Path(__file__).parents[1] / "share_scenes_kafka_4.3.1.json"
LOGS = Path(__file__).parents[1] / "records" / "share_state_kafka_4.3.1.json"


def capture() -> None:
    answers: dict[str, list[str]] = {}
    provenance = {"broker": "Apache Kafka 4.3.1", "command": "python -m tests.golden capture share_scenes"}
    with tempfile.TemporaryDirectory() as folder, KafkaProcess(Path(folder), settings=SETTINGS) as kafka:
        for each in SCENES:
            print(each.__name__, file=sys.stderr, flush=True)
            answers[each.__name__] = play(each, Sockets(kafka.port))
        kafka.stop()
        GOLDEN.write_text(json.dumps(provenance | {"scenes": answers}, indent=1) + "\n")
        logs = dumped(kafka.data_dir, "__share_group_state", "--share-group-state-decoder")
    LOGS.write_text(json.dumps(provenance | {"decoded by": "DumpLogSegments", "segments": logs}, indent=1) + "\n")
