"""Configs as DescribeConfigs and CreateTopics show them: value in force, where it comes from, and every other place that sets it.

Rules are ConfigHelper's of Apache Kafka 4.3.1. A topic config's synonyms are its override, then the broker property behind it: dynamic
for this broker, dynamic for all, static, default. Names that answer the same question (log.retention.ms, .minutes, .hours)
follow each other within each of these; what stands before the first mention of the name itself is left out, as Kafka does.
Those of brokers are in broker_entries.py, which knows all of Kafka's configs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minibroker.cluster.configs.topic_config import topic_value
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, BROKER_SYNONYMS
from minibroker.config.definition import (
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_DYNAMIC_TOPIC,
    SOURCE_STATIC_BROKER,
    Property,
    format_value,
)
from minibroker.config.topic_properties import INTERNAL_TOPIC_PROPERTIES, SYNONYMS, TOPIC_PROPERTIES


class ConfigSynonym(NamedTuple):
    """One place that sets a config; the value is None when it is sensitive."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One config of a topic, a broker, a group or of client metrics."""

    prop: Property
    value: str | None
    source: int
    is_read_only: bool
    synonyms: list[ConfigSynonym]


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of a topic, by name; undocumented ones where they are set."""
    props = [*TOPIC_PROPERTIES.values(), *(prop for name, prop in INTERNAL_TOPIC_PROPERTIES.items() if name in overrides)]
    return [_topic_entry(config, overrides, prop) for prop in props]


def _topic_entry(config: BrokerConfig, overrides: Mapping[str, str], prop: Property) -> ConfigEntry:
    value = format_value(topic_value(config, overrides, prop.name))
    behind = SYNONYMS.get(prop.name)
    synonyms = broker_synonyms(config, behind[0][0]) if behind else []
    if prop.name in overrides:
        synonyms.insert(0, ConfigSynonym(prop.name, value, SOURCE_DYNAMIC_TOPIC))
    return ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms)


def broker_synonyms(config: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """Every place that sets a broker property, the one in force first."""
    names = BROKER_SYNONYMS.get(name, (name,))
    layers = (
        (config.dynamic_broker, SOURCE_DYNAMIC_BROKER),
        (config.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),
        (config.static, SOURCE_STATIC_BROKER),
    )
    found = [
        ConfigSynonym(each, None if BROKER_PROPERTIES[each].is_sensitive else layer[each], source)
        for layer, source in layers
        for each in names
        if each in layer
    ]
    defaults = ((each, config.default(each)) for each in names)
    found += [ConfigSynonym(each, text, SOURCE_DEFAULT) for each, text in defaults if text is not None]
    while found and found[0].name != name:
        found.pop(0)
    return found


def source_of(synonyms: list[ConfigSynonym]) -> int:
    """Where the value in force comes from."""
    return synonyms[0].source if synonyms else SOURCE_DEFAULT
