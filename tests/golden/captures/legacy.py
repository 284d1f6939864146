"""Capture messages of formats v0 and v1 as golden bytes.

CaptureLegacy.java has Apache Kafka's own classes write sets, convert batches down and fill a segment with its indexes. Kafka 3.9 is the
last that can: its brokers serve the clients that want these formats. Each line of records/legacy_kafka_3.9.1.jsonl is one of them,
the first says where they are from.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import java

KAFKA_VERSION = "3.9.1"
SOURCE = Path(__file__).parents[1] / "CaptureLegacy.java"
TARGET = Path(__file__).parents[1] / "records" / f"legacy_kafka_{KAFKA_VERSION}.jsonl"


@cache
def legacy_golden() -> list[dict[str, Any]]:
    """All entries, without the provenance."""
    return [entry for entry in map(json.loads, TARGET.read_text().splitlines()) if "provenance" not in entry]


def capture() -> None:
    command = ["java", "-cp", f"{java.kafka_jars(KAFKA_VERSION)}/*", str(SOURCE)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    made = f"{SOURCE.name}, run with the jars of Apache Kafka {KAFKA_VERSION} on {datetime.now(tz=UTC).date()}"
    TARGET.write_text(json.dumps({"provenance": made}) + "\n" + lines)
