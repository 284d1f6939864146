"""The configs of topics: checks of overrides, and values in force (the override, else the broker's value, else the default)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from minibroker.config.broker_config import BrokerConfig
from minibroker.config.definition import Value
from minibroker.config.topic_properties import (
    INTERNAL_SEGMENT_BYTES,
    INTERNAL_TOPIC_PROPERTIES,
    SCHEMA_PROPERTIES,
    SYNONYMS,
    TOPIC_PROPERTIES,
    topic_property,
)
from minibroker.errors import InvalidConfig
from minibroker.log.log_config import LogConfig

_LOG_FIELDS = {name: name.replace(".", "_") for name in TOPIC_PROPERTIES if name.replace(".", "_") in LogConfig._fields}


def check_overrides(configs: Mapping[str, str | None], *, has_registry: bool = False) -> dict[str, str]:
    """Return overrides as they are stored. Raise InvalidConfig, with Kafka's message, for the first invalid one.

    Configs of schema validation are unknown, as to Apache Kafka, unless the broker has a schema registry (`has_registry`).
    Blanks around values are removed: Apache Kafka stores those around min.insync.replicas, and then fails to start on them.
    """
    checked: dict[str, str] = {}
    missing = sorted(name for name, value in configs.items() if value is None)
    if missing:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(missing)}")
    for name, value in configs.items():
        prop = topic_property(name)
        if prop is None:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        if name in SCHEMA_PROPERTIES and not has_registry:
            raise InvalidConfig(f"Unknown topic config name: {name}. It needs a schema registry: --registry-port")
        parsed = prop.parse(value)
        checked[name] = str(parsed) if name == INTERNAL_SEGMENT_BYTES else (value or "").strip()
    _check_together(checked)
    return checked


def _check_together(configs: Mapping[str, str]) -> None:
    values = {name: TOPIC_PROPERTIES[name].parse(text) for name, text in configs.items() if name in TOPIC_PROPERTIES}
    minimum, maximum = (values.get(name) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if isinstance(minimum, int) and isinstance(maximum, int) and minimum > maximum:
        raise InvalidConfig(f"conflict topic config setting min.compaction.lag.ms ({minimum}) > max.compaction.lag.ms ({maximum})")
    if values.get("remote.storage.enable"):
        raise InvalidConfig("Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.")


def topic_value(config: BrokerConfig, overrides: Mapping[str, str], name: str) -> Value:
    """Return the parsed value of one topic config."""
    prop = TOPIC_PROPERTIES.get(name) or INTERNAL_TOPIC_PROPERTIES[name]
    if name in overrides:
        return prop.parse(overrides[name])
    for broker_name, factor in SYNONYMS.get(name, ()):
        value = config.value(broker_name)
        if value is not None:
            return value * factor if factor > 1 and isinstance(value, int) else value
    return prop.parse(prop.default)


def broker_log_config(config: BrokerConfig) -> LogConfig:
    """Return the LogConfig of a topic without overrides."""
    values: dict[str, Any] = {field: _log_value(name, topic_value(config, {}, name)) for name, field in _LOG_FIELDS.items()}
    return LogConfig(**values)


def log_config(base: LogConfig, overrides: Mapping[str, str]) -> LogConfig:
    """Return `base`, the broker's, with a topic's overrides. Logs with equal configs share one object."""
    return _overridden(base, tuple(overrides.items())) if overrides else base


@lru_cache(maxsize=64)
def _overridden(base: LogConfig, overrides: tuple[tuple[str, str], ...]) -> LogConfig:
    changed: dict[str, Any] = {
        _LOG_FIELDS[name]: _log_value(name, TOPIC_PROPERTIES[name].parse(text)) for name, text in overrides if name in _LOG_FIELDS
    }
    internal = dict(overrides).get(INTERNAL_SEGMENT_BYTES)
    if internal is not None:
        changed["segment_bytes"] = int(internal)
    return base._replace(**changed) if changed else base


def _log_value(name: str, value: Value) -> Value | frozenset[str]:
    if isinstance(value, tuple):
        return frozenset(value)
    if name == "retention.ms" and isinstance(value, int):
        return max(value, -1)
    return value
