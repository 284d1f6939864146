"""Configs of groups, client metrics and broker loggers as DescribeConfigs shows them; those of topics and brokers are in config_entries.py.

Rules are ConfigHelper's of Apache Kafka 4.3.1. A group config's synonyms are its own value, then the broker property behind it, wherever
that is set; a config without such a property has its default.
"""

from __future__ import annotations

from collections.abc import Mapping

from minibroker.cluster.configs.broker_loggers import levels
from minibroker.cluster.configs.config_entries import ConfigEntry, ConfigSynonym, broker_synonyms, source_of
from minibroker.cluster.configs.group_config import group_value
from minibroker.config.broker_config import BrokerConfig
from minibroker.config.client_metrics_properties import CLIENT_METRICS_PROPERTIES
from minibroker.config.definition import (
    SOURCE_BROKER_LOGGER,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    Property,
    Row,
    format_value,
)
from minibroker.config.group_properties import GROUP_PROPERTIES, GROUP_SYNONYMS

_UNKNOWN_TYPE = 0  #: of loggers, as Apache Kafka tells it


def group_entries(config: BrokerConfig, overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of a group, by name; a group need not be there to have them."""
    return [_group_entry(config, overrides, prop) for prop in GROUP_PROPERTIES.values()]


def logger_entries() -> list[ConfigEntry]:
    """The levels of this broker's loggers."""
    return [
        ConfigEntry(Property(_logger_row(name), is_dynamic=True), level, SOURCE_BROKER_LOGGER, is_read_only=False, synonyms=[])
        for name, level in levels().items()
    ]


def client_metrics_entries(overrides: Mapping[str, str]) -> list[ConfigEntry]:
    """All configs of client metrics of one name, by name."""
    entries = []
    for name, prop in CLIENT_METRICS_PROPERTIES.items():
        value = format_value(prop.parse(overrides.get(name, prop.default)))
        synonyms = [ConfigSynonym(name, value, SOURCE_CLIENT_METRICS)] if name in overrides else []
        entries.append(ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms))
    return entries


def _group_entry(config: BrokerConfig, overrides: Mapping[str, str], prop: Property) -> ConfigEntry:
    value = format_value(group_value(config, overrides, prop.name))
    behind = GROUP_SYNONYMS.get(prop.name)
    synonyms = [ConfigSynonym(prop.name, prop.default, SOURCE_DEFAULT)] if behind is None else broker_synonyms(config, behind)
    if prop.name in overrides:
        synonyms.insert(0, ConfigSynonym(prop.name, value, SOURCE_GROUP))
    return ConfigEntry(prop, value, source_of(synonyms), is_read_only=False, synonyms=synonyms)


def _logger_row(name: str) -> Row:
    return name, _UNKNOWN_TYPE, None, None, ""
