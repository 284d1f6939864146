"""Capture what Apache Kafka refuses, hides and shows, for every request of tests/support/authorized_requests.py.

Writes tests/golden/authorization_kafka_4.3.1.json: request -> outcome -> sets of access control lists.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.support.authorized_twins import SMALL, Kafka, walk
from tests.support.kafka_process import KafkaProcess
from tests.support.kafka_users import kafka_with_users

GOLDEN = Path(__file__).parents[1] / "authorization_kafka_4.3.1.json"


def capture() -> None:
    with tempfile.TemporaryDirectory() as folder:
        port, settings = kafka_with_users(["alice"])
        with KafkaProcess(Path(folder), settings={**settings, **SMALL}) as kafka:
            assert kafka.port
            outcomes = walk(Kafka(port))
    GOLDEN.write_text(json.dumps(outcomes, indent=0, sort_keys=True) + "\n")
