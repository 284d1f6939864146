"""Apache Kafka's own listing of configs (tests/golden/captures/configs.py, tests/golden/captures/broker_configs.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_GOLDEN = Path(__file__).parents[1] / "golden"
_CONTENT = json.loads((_GOLDEN / "configs_kafka_4.3.1.json").read_text())
_OF_BROKERS = json.loads((_GOLDEN / "broker_configs_kafka_4.3.1.json").read_text())

TOPIC_CONFIGS: dict[str, list[Any]] = _CONTENT["topic"]
BROKER_CONFIGS: dict[str, list[Any]] = _CONTENT["broker"]
TEXTS: list[str | None] = _CONTENT["texts"]
VALIDATION: dict[str, list[str | None]] = _CONTENT["validation"]

#: broker config -> value, type, source, read_only, is_sensitive, synonyms [name, value, source]
DESCRIBED: dict[str, list[Any]] = _OF_BROKERS["configs"]
DOCUMENTATION: dict[str, str] = _OF_BROKERS["documentation"]
ATTEMPTS: list[list[Any]] = _OF_BROKERS["attempts"]
STEPS: list[list[Any]] = _OF_BROKERS["steps"]
