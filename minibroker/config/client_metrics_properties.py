"""Configs of client metrics (KIP-714): which clients push which metrics, and how often.

They are stored and described, as in Apache Kafka 4.3.1 (ClientMetricsConfigs). `minibroker.telemetry` puts them in force.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from minibroker.config.definition import INT, LIST, Property, Row
from minibroker.errors import InvalidConfig, InvalidRequest

_INTERVAL_MIN_MS: Final = 100
_INTERVAL_MAX_MS: Final = 3_600_000
_MATCHED: Final = {
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"
}  # fmt: skip


_ROWS: tuple[Row, ...] = (
    ("interval.ms", INT, "300000", None, "How often clients push, 100 to 3600000."),
    ("match", LIST, "", None, "Which clients: name=pattern, e.g. client_software_name=apache-kafka-java. All when empty."),
    ("metrics", LIST, "", None, "Prefixes of the metrics that they push; * for all."),
)

CLIENT_METRICS_PROPERTIES: dict[str, Property] = {row[0]: Property(row, is_dynamic=True) for row in _ROWS}


def check_client_metrics(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the configs as they are stored, or raise InvalidRequest or InvalidConfig with Kafka's message."""
    for name in configs:
        if name not in CLIENT_METRICS_PROPERTIES:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    values = {name: CLIENT_METRICS_PROPERTIES[name].parse(text) for name, text in configs.items()}
    for name, value in values.items():
        if isinstance(value, tuple) and "" in value:
            raise InvalidConfig(f"Configuration '{name}' values must not be empty.")
    interval_ms = values.get("interval.ms")
    if isinstance(interval_ms, int) and not _INTERVAL_MIN_MS <= interval_ms <= _INTERVAL_MAX_MS:
        raise InvalidRequest(f"Invalid value {interval_ms} for interval.ms, interval must be between 100 and 3600000 (1 hour)")
    patterns = values.get("match")
    for pattern in patterns if isinstance(patterns, tuple) else ():
        name, _, text = pattern.partition("=")
        if name.strip() not in _MATCHED or not text or "=" in text or not _compiles(text.strip()):
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
    return dict(configs)


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):  # RecursionError: too deeply nested; OverflowError: too many repetitions
        return False
    return True
