"""Configs of a broker as DescribeConfigs reports them: all of Kafka's, minibroker's, and unknown names that were set.

Rules are ConfigHelper's of Apache Kafka 4.3.1. A config that has no effect here has Kafka's default, unless the properties file or a client
sets it. The values of passwords and of unknown names are never reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minibroker.cluster.configs.config_entries import ConfigEntry, ConfigSynonym, broker_synonyms, source_of
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.broker_properties import BROKER_PROPERTIES, DESCRIBED_IF_SET
from minibroker.config.definition import (
    SOURCE_DEFAULT,
    SOURCE_DYNAMIC_BROKER,
    SOURCE_DYNAMIC_DEFAULT_BROKER,
    SOURCE_STATIC_BROKER,
    Property,
    format_value,
)
from minibroker.config.kafka_table import base_name, kafka_names, property_of
from minibroker.errors import InvalidConfig


def broker_entries(config: BrokerConfig, wanted: Collection[str] = ()) -> list[ConfigEntry]:
    """Return the configs of this broker, by name: those in `wanted`, or all if that is empty."""
    names = BROKER_PROPERTIES.keys() | kafka_names() | config.unknown.keys() | config.dynamic_default.keys() | config.dynamic_broker.keys()
    entries = [_entry(config, name) for name in sorted(names.intersection(wanted) if wanted else names)]
    return [entry for entry in entries if entry.prop.name not in DESCRIBED_IF_SET or entry.source != SOURCE_DEFAULT]


def default_broker_entries(config: BrokerConfig, wanted: Collection[str] = ()) -> list[ConfigEntry]:
    """Return the configs that are stored for all brokers, by name."""
    entries = []
    for name, text in sorted(config.dynamic_default.items()):
        if wanted and name not in wanted:
            continue
        prop = property_of(name)
        synonyms = [each for each in _synonyms(config, prop) if each.source == SOURCE_DYNAMIC_DEFAULT_BROKER]
        entries.append(ConfigEntry(prop, None if prop.is_sensitive else text, source_of(synonyms), not prop.is_dynamic, synonyms))
    return entries


def _entry(config: BrokerConfig, name: str) -> ConfigEntry:
    prop = property_of(name)
    synonyms = _synonyms(config, prop)
    return ConfigEntry(prop, _value(config, prop), source_of(synonyms), not prop.is_dynamic, synonyms)


def _value(config: BrokerConfig, prop: Property) -> str | None:
    if prop.is_sensitive:
        return None
    if prop.name in BROKER_PROPERTIES:
        return format_value(config.value(prop.name))
    text = next((layer[prop.name] for layer, _ in _layers(config) if prop.name in layer), prop.default)
    try:
        return format_value(prop.parse(text))
    except InvalidConfig:  # in the properties file: a config without effect does not fail a start
        return text


def _synonyms(config: BrokerConfig, prop: Property) -> list[ConfigSynonym]:
    """Return all places that set a config, the one in force first."""
    if prop.name in BROKER_PROPERTIES:
        return broker_synonyms(config, prop.name)
    base = base_name(prop.name)
    props = [prop] if base is None else [prop, property_of(base)]
    found = [
        ConfigSynonym(each.name, None if each.is_sensitive else layer[each.name], source)
        for layer, source in _layers(config)
        for each in props
        if each.name in layer
    ]
    found += [ConfigSynonym(each.name, each.default, SOURCE_DEFAULT) for each in props if each.default is not None]
    while found and found[0].name != prop.name:
        found.pop(0)
    return found


def _layers(config: BrokerConfig) -> tuple[tuple[Mapping[str, str], int], ...]:
    """Return the texts of configs that have no effect here, strongest first."""
    return (
        (config.dynamic_broker, SOURCE_DYNAMIC_BROKER),
        (config.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),
        (config.unknown, SOURCE_STATIC_BROKER),
    )
