"""Answers to the scenarios as plain values that two brokers can agree on: what is each one's own is masked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from minibroker.wire.schema import NIL_UUID, fields_of

FILE = Path(__file__).parent / "admin_kafka_4.3.1.json"

_MASKED = {"cluster_id", "host", "port", "log_dir", "total_bytes", "usable_bytes", "throttle_time_ms", "producer_id"}
_DROPPED = {"is_default"}  #: of versions that Kafka 4.3.1 no longer knows
_DEFAULT_SOURCE = 5


def plain(value: Any) -> Any:
    """Dicts and lists; ids, addresses and sizes of the volume as `*`; lists of named things in the order of their names."""
    if isinstance(value, UUID):
        return None if value == NIL_UUID else "*"
    if isinstance(value, list | tuple):
        return sorted((plain(item) for item in value), key=_order)
    if isinstance(value, str | int | float | bytes) or value is None:
        return value
    answer: dict[str, Any] = {}
    for field in fields_of(type(value)):
        if field.name in _DROPPED:
            continue
        content = getattr(value, field.name)
        answer[field.name] = "*" if field.name in _MASKED and content not in {"", -1} else plain(content)
    if type(value).__module__.endswith("k19_create_topics") and answer.get("configs"):
        answer["config_count"] = len(answer["configs"])
        answer["configs"] = [config for config in answer["configs"] if config["config_source"] != _DEFAULT_SOURCE]
    return answer


def _order(item: Any) -> str:
    """Synonyms keep their order; what has a name or an index is sorted by it."""
    if not isinstance(item, dict) or "source" in item:
        return ""
    keys = ("name", "partition_index", "resource_name")
    return "/".join(f"{item[key]:>8}" for key in keys if item.get(key) is not None)


def expected(stem: str) -> list[Any]:
    """What Apache Kafka answered."""
    answers: list[Any] = json.loads(FILE.read_text())["answers"][stem]
    return answers
