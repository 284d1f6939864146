"""Configs as DescribeConfigs and CreateTopics report them: the value in force, its source, and all other places that set it.

Rules are ConfigHelper's of Apache Kafka 4.3.1. Entries of brokers are in handlers/k32_describe_configs.py.

    a topic's synonyms    its override, then the broker property with the same meaning: dynamic for this broker, dynamic for all, static,
                          default. Properties of the same meaning (log.retention.ms, .minutes, .hours) follow each other within each of
                          these. Everything before the first mention of the name itself
                          is left out.
    a group's             its override, then the broker property with the same meaning, else the default
    client metrics        the override
    loggers               none
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from minibroker.cluster.configs.broker_loggers import levels
from minibroker.cluster.configs.group_config import group_value
from minibroker.cluster.configs.topic_config import topic_value
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, BROKER_SYNONYMS
from minibroker.config.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from minibroker.config.definition import (
    SOURCE_BROKER_LOGGER,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_DYNAMIC_TOPIC,
    SOURCE_GROUP,
    SOURCE_STATIC_BROKER,
    Property,
    Row,
    format_value,
)
from minibroker.config.group_properties import GROUP_PROPERTIES, GROUP_SYNONYMS
from minibroker.config.topic_properties import INTERNAL_TOPIC_PROPERTIES, SYNONYMS, TOPIC_PROPERTIES

_UNKNOWN_TYPE = 0  #: of loggers, as in Apache Kafka


class ConfigSynonym(NamedTuple):
    """One place that sets a config. The value is None if it is sensitive."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One config of a topic, a broker, a group, client metrics or a logger."""

    prop: Property
    value: str | None
    source: int
    is_read_only: bool
    synonyms: list[ConfigSynonym]


def topic_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a topic, by name. Undocumented ones are included if they are set."""
    props = [*TOPIC_PROPERTIES.values(), *(prop for name, prop in INTERNAL_TOPIC_PROPERTIES.items() if name in overrides)]
    return [_topic_entry(config, overrides, prop) for prop in props]


def _topic_entry(config: BrokerConfig, overrides: Mapping[str, str], prop: Property) -> ConfigEntry:
    value = format_value(topic_value(config, overrides, prop.name))
    own_synonyms = SYNONYMS.get(prop.name)
    synonyms = broker_synonyms(config, own_synonyms[0][0]) if own_synonyms else []
    if prop.name in overrides:
        synonyms.insert(0, ConfigSynonym(prop.name, value, SOURCE_DYNAMIC_TOPIC))
    return ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms)


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of a group, by name. The group need not exist."""
    return [_group_entry(config, overrides, prop) for prop in GROUP_PROPERTIES.values()]


def logger_entries() -> list[ConfigEntry]:
    """Return the levels of this broker's loggers."""
    entries = []
    for name, level in levels().items():
        row: Row = (name, _UNKNOWN_TYPE, None, None, "")
        entries.append(ConfigEntry(Property(row, is_dynamic=True), level, SOURCE_BROKER_LOGGER, is_read_only=False, synonyms=[]))
    return entries


def client_metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """Return all configs of one subscription of client metrics, by name."""
    entries = []
    for name, prop in CLIENT_METRICS_PROPERTIES.items():
        value = format_value(prop.parse(overrides.get(name, prop.default)))
        synonyms = [ConfigSynonym(name, value, SOURCE_CLIENT_METRICS)] if name in overrides else []
        entries.append(ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms))
    return entries


def _group_entry(config: BrokerConfig, overrides: Mapping[str, str], prop: Property) -> ConfigEntry:
    value = format_value(group_value(config, overrides, prop.name))
    synonym = GROUP_SYNONYMS.get(prop.name)
    synonyms = [ConfigSynonym(prop.name, prop.default, SOURCE_DEFAULT)] if synonym is None else broker_synonyms(config, synonym)
    if prop.name in overrides:
        synonyms.insert(0, ConfigSynonym(prop.name, value, SOURCE_GROUP))
    return ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms)


def broker_synonyms(config: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """Return all places that set a broker property, the one in force first."""
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
    """Return the source of the value in force."""
    return synonyms[0].source if synonyms else SOURCE_DEFAULT
