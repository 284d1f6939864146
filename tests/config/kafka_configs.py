"""Apache Kafka's own listing of configs (tests/golden/capture_configs.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CONTENT = json.loads((Path(__file__).parents[1] / "golden" / "configs_kafka_4.3.1.json").read_text())

TOPIC_CONFIGS: dict[str, list[Any]] = _CONTENT["topic"]
BROKER_CONFIGS: dict[str, list[Any]] = _CONTENT["broker"]
TEXTS: list[str | None] = _CONTENT["texts"]
VALIDATION: dict[str, list[str | None]] = _CONTENT["validation"]
