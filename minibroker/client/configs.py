"""Describe and change configs of topics, brokers, groups and other resources, and quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.connection import Connection
from minibroker.client.errors import check
from minibroker.client.topics import SOURCES
from minibroker.schemas import (
    k32_describe_configs,
    k44_incremental_alter_configs,
    k48_describe_client_quotas,
    k49_alter_client_quotas,
    k74_list_config_resources,
)

#: ConfigResource.Type by the name of Kafka's --entity-type
TYPES: Final = {"topics": 2, "brokers": 4, "broker-loggers": 8, "client-metrics": 16, "groups": 32}
OF_ONE_BROKER: Final = ("brokers", "broker-loggers")  #: types that only the broker itself describes and changes
CLUSTER: Final = ""  #: the name of the default for all brokers

SET, DELETE, APPEND, SUBTRACT = range(4)  #: AlterConfigOp.OpType


class ConfigEntry(NamedTuple):
    """One config of one entity."""

    name: str
    value: str | None  #: None when sensitive
    source: str  #: a word of `topics.SOURCES`
    read_only: bool
    sensitive: bool


class Change(NamedTuple):
    """A change of one config."""

    name: str
    operation: int
    value: str | None


def list_entities(client: Client, kind: str) -> list[str]:
    """Return the names of the entities of a type. Groups and client metrics are listed if they have configs."""
    deadline = client.deadline()
    request = k74_list_config_resources.Request(resource_types=[TYPES[kind]])
    response: k74_list_config_resources.Response = client.retrying(lambda: client.to_any(deadline), deadline).ask(
        k74_list_config_resources, request, deadline
    )
    check(response.error_code, kind)
    return sorted(each.resource_name for each in response.config_resources if each.resource_type == TYPES[kind])


def describe_configs(client: Client, kind: str, entity: str) -> list[ConfigEntry]:
    """Return every config of one entity, by name; KafkaError if it cannot be described."""
    return sorted(
        ConfigEntry(each.name, each.value, SOURCES.get(each.config_source, "unknown"), each.read_only, each.is_sensitive)
        for each in ask_configs(client, kind, entity)
    )


def ask_configs(client: Client, kind: str, entity: str, *, with_synonyms: bool = False) -> list[k32_describe_configs.Config]:
    """Return the configs of one entity as in the response. `with_synonyms` adds every source that sets a config."""
    resource = k32_describe_configs.Resource(resource_type=TYPES[kind], resource_name=entity, configuration_keys=None)
    request = k32_describe_configs.Request(resources=[resource], include_synonyms=with_synonyms)
    response: k32_describe_configs.Response = _ask(client, kind, entity, k32_describe_configs, request)
    found: list[k32_describe_configs.Config] = []
    for result in response.results:
        check(result.error_code, f"{kind} {entity}".rstrip(), result.error_message)
        found += result.configs
    return sorted(found, key=lambda config: config.name)


def alter_configs(client: Client, kind: str, entity: str, changes: Sequence[Change], *, validate_only: bool = False) -> None:
    """Change configs of one entity: all of them, or none after a KafkaError."""
    configs = [k44_incremental_alter_configs.Config(name=each.name, config_operation=each.operation, value=each.value) for each in changes]
    resource = k44_incremental_alter_configs.Resource(resource_type=TYPES[kind], resource_name=entity, configs=configs)
    request = k44_incremental_alter_configs.Request(resources=[resource], validate_only=validate_only)
    response: k44_incremental_alter_configs.Response = _ask(client, kind, entity, k44_incremental_alter_configs, request)
    for result in response.responses:
        check(result.error_code, f"{kind} {entity}".rstrip(), result.error_message)


def _ask(client: Client, kind: str, entity: str, schema: ModuleType, request: Any) -> Any:
    """Send the request once, to the broker itself or to the controller."""
    deadline = client.deadline()

    def connection() -> Connection:
        return client.to_node(int(entity), deadline) if kind in OF_ONE_BROKER and entity != CLUSTER else client.to_controller(deadline)

    return client.retrying(connection, deadline).ask(schema, request, deadline)


#: entity types of quotas, by their names in Kafka's tools
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
QUOTA_NAMES: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)

_EXACT, _DEFAULT, _ANY = 0, 1, 2  #: match types of a filter component

Entity = Mapping[str, str | None]  #: type -> name; None is the default of its type


class Quota(NamedTuple):
    """One quota of one entity."""

    entity: Entity
    name: str
    value: float


def describe_quotas(client: Client, entity: Entity, *, strict: bool = False, any_of: Sequence[str] = ()) -> list[Quota]:
    """Return quotas.

    Args:
        client: the client.
        entity: the parts that an entity must have.
        strict: leave out entities with other parts.
        any_of: types of parts that an entity must have, with any name or as the default.

    Raises:
        KafkaError: the filter is invalid.
    """
    components = [
        k48_describe_client_quotas.Component(entity_type=each, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for each, name in entity.items()
    ]
    components += [k48_describe_client_quotas.Component(entity_type=each, match_type=_ANY, match=None) for each in any_of]
    request = k48_describe_client_quotas.Request(components=components, strict=strict)
    deadline = client.deadline()
    response: k48_describe_client_quotas.Response = client.retrying(lambda: client.to_any(deadline), deadline).ask(
        k48_describe_client_quotas, request, deadline
    )
    check(response.error_code, "quotas", response.error_message)
    return [
        Quota({part.entity_type: part.entity_name for part in entry.entity}, value.key, value.value)
        for entry in response.entries or ()
        for value in entry.values
    ]


def alter_quotas(client: Client, entity: Entity, values: Mapping[str, float | None], *, validate_only: bool = False) -> None:
    """Set quotas of one entity, and remove those that are None: all of them, or none after a KafkaError."""
    entry = k49_alter_client_quotas.Entry(
        entity=[k49_alter_client_quotas.Entity(entity_type=each, entity_name=name) for each, name in entity.items()],
        ops=[k49_alter_client_quotas.Operation(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )
    request = k49_alter_client_quotas.Request(entries=[entry], validate_only=validate_only)
    deadline = client.deadline()
    response: k49_alter_client_quotas.Response = client.retrying(lambda: client.to_any(deadline), deadline).ask(
        k49_alter_client_quotas, request, deadline
    )
    for result in response.entries:
        check(result.error_code, f"quotas of {entity_text(entity)}", result.error_message)


def entity_text(entity: Entity) -> str:
    """Return an entity in words: user alice, any client-id."""
    return ", ".join(f"any {each}" if name is None else f"{each} {name}" for each, name in entity.items())
