"""DescribeConfigs (key 32): configs of topics, this broker, groups and client metrics, with the source of each value.

Versions: 0 to 4; 3 adds type and documentation, 4 is flexible. Version 0 has is_default instead of
the source. Apache Kafka 3.9 never sets it; this broker sets it for defaults. Resource types: 2
topic; 4 broker (its id, with all of Kafka's configs; "" has the stored configs of all brokers); 8
loggers of a broker; 16 client metrics; 32 group. The last two have their defaults for any name. If
`configuration_keys` is null or empty, all are returned.

The rules are those of ConfigHelper of Apache Kafka 4.3.1. A config that has no effect here has
Kafka's default, unless the properties file or a client sets it. The values of passwords and of
unknown names are never reported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from minibroker.cluster.configs.config_changes import check_config_count
from minibroker.cluster.configs.config_entries import (
    ConfigEntry,
    ConfigSynonym,
    broker_synonyms,
    client_metrics_entries,
    group_entries,
    logger_entries,
    source_of,
    topic_entries,
)
from minibroker.cluster.metadata.metadata_image import (
    ALL_BROKERS,
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from minibroker.cluster.topic_rules import check_name
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
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition
from minibroker.schemas import k32_describe_configs as schema

_PIECE_SIZE: Final = 10  #: topics, each with about 30 configs


def _weight(resource: schema.Resource) -> int:
    """Return the size of a resource.

    A broker has ten times the configs of a topic, so it is its own piece unless the request has
    keys.
    """
    keys = resource.configuration_keys
    if keys:
        return 1 + len(keys)
    return _PIECE_SIZE if resource.resource_type == BROKER_RESOURCE else 1


PIECES: Final = Pieces("resources", "results", size=_PIECE_SIZE, weight=_weight)


@handles(schema, PIECES)
def describe_configs(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Describe each resource."""
    return schema.Response(results=[_describe(ctx, request, resource) for resource in request.resources])


def _describe(ctx: RequestContext, request: schema.Request, resource: schema.Resource) -> schema.Result:
    error_code, message, entries = 0, "", []
    keys: set[str] = set()
    try:
        check_config_count(resource.configuration_keys or ())
        keys.update(resource.configuration_keys or ())
        entries = _entries(ctx, resource, keys)
    except UnknownTopicOrPartition as error:
        error_code = error.code
    except KafkaError as error:
        error_code, message = error.code, str(error)
    return schema.Result(
        error_code=error_code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_config(entry, request) for entry in entries if not keys or entry.prop.name in keys],
    )


def _entries(ctx: RequestContext, resource: schema.Resource, keys: set[str]) -> list[ConfigEntry]:
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        check_name(name)
        return topic_entries(ctx.broker.config, ctx.cluster.topic(name).config)
    if resource.resource_type in {GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE}:
        return _other_entries(ctx, resource.resource_type, name)
    if resource.resource_type != BROKER_RESOURCE:
        raise InvalidRequest(f"configs of resource type {resource.resource_type} are not served")
    return _broker_entries(ctx, name, keys)


def _other_entries(ctx: RequestContext, resource_type: int, name: str) -> list[ConfigEntry]:
    if resource_type == GROUP_RESOURCE:
        if not name:
            raise InvalidRequest("Group name must not be empty")
        return group_entries(ctx.broker.config, ctx.cluster.image.config_of(GROUP_RESOURCE, name))
    if resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise InvalidRequest("Client metrics subscription name must not be empty")
        return client_metrics_entries(ctx.cluster.image.config_of(CLIENT_METRICS_RESOURCE, name))
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    _check_node_id(ctx, name)
    return logger_entries()


def _broker_entries(ctx: RequestContext, name: str, keys: set[str]) -> list[ConfigEntry]:
    if name == ALL_BROKERS:
        return default_broker_entries(ctx.broker.config, keys)
    _check_node_id(ctx, name, or_empty=" or empty string,")
    return broker_entries(ctx.broker.config, keys)


def _check_node_id(ctx: RequestContext, name: str, *, or_empty: str = "") -> None:
    """Raise InvalidRequest with Kafka's message unless `name` is the id of this node."""
    node_id = ctx.broker.nodes.own.node_id
    try:
        number = int(name)
    except ValueError:
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}") from None
    if number != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}{or_empty} but received {name}")


def _config(entry: ConfigEntry, request: schema.Request) -> schema.Config:
    synonyms = entry.synonyms if request.include_synonyms else []
    return schema.Config(
        name=entry.prop.name,
        value=entry.value,
        read_only=entry.is_read_only,
        is_default=entry.source == SOURCE_DEFAULT,
        config_source=entry.source,
        is_sensitive=entry.prop.is_sensitive,
        synonyms=[schema.Synonym(name=each.name, value=each.value, source=each.source) for each in synonyms],
        config_type=entry.prop.type,
        documentation=_documentation(entry) if request.include_documentation else None,
    )


def _documentation(entry: ConfigEntry) -> str | None:
    """Return the documentation as Kafka does: empty for a logger, null for an unknown broker config, whose value is hidden."""
    return entry.prop.documentation or (None if entry.prop.is_sensitive else "")


def broker_entries(config: BrokerConfig, chosen: Collection[str] = ()) -> list[ConfigEntry]:
    """Return the configs of this broker in the order of their names: those in `chosen`, or all if `chosen` is empty."""
    names = BROKER_PROPERTIES.keys() | kafka_names() | config.unknown.keys() | config.dynamic_default.keys() | config.dynamic_broker.keys()
    entries = [_entry(config, name) for name in sorted(names.intersection(chosen) if chosen else names)]
    return [entry for entry in entries if entry.prop.name not in DESCRIBED_IF_SET or entry.source != SOURCE_DEFAULT]


def default_broker_entries(config: BrokerConfig, chosen: Collection[str] = ()) -> list[ConfigEntry]:
    """Return the configs that are stored for all brokers, in the order of their names."""
    entries = []
    for name, text in sorted(config.dynamic_default.items()):
        if chosen and name not in chosen:
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
    except InvalidConfig:  # an invalid config without effect in the properties file does not prevent a start
        return text


def _synonyms(config: BrokerConfig, prop: Property) -> list[ConfigSynonym]:
    """Return all values that are set for a config, the effective one first."""
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
    """Return the texts of configs that have no effect here, in descending precedence."""
    return (
        (config.dynamic_broker, SOURCE_DYNAMIC_BROKER),
        (config.dynamic_default, SOURCE_DYNAMIC_DEFAULT_BROKER),
        (config.unknown, SOURCE_STATIC_BROKER),
    )
