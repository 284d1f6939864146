"""Describe and change client quotas of users, client ids and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minibroker.client.client import Client
from minibroker.client.errors import check
from minibroker.schemas import k48_describe_client_quotas, k49_alter_client_quotas

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
#: entity types of quotas, by their names in Kafka's tools
KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate", "connection_creation_rate")

_EXACT, _DEFAULT = 0, 1  #: match types of a filter component

Entity = Mapping[str, str | None]  #: type -> name; None is the default of its type


class Quota(NamedTuple):
    """One quota of one entity."""

    entity: Entity
    name: str
    value: float


def describe_quotas(client: Client, entity: Entity, *, strict: bool = False) -> list[Quota]:
    """Return the quotas of all entities with these parts, `strict`: without other parts. KafkaError: the filter is invalid."""
    components = [
        k48_describe_client_quotas.Component(entity_type=each, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for each, name in entity.items()
    ]
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
    """Set these quotas of one entity, and remove those that are None. With a KafkaError, none is changed."""
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
        check(result.error_code, f"quotas of {words(entity)}", result.error_message)


def words(entity: Entity) -> str:
    """Return an entity in words: user alice, any client-id."""
    return ", ".join(f"any {each}" if name is None else f"{each} {name}" for each, name in entity.items())
