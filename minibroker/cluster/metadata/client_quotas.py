"""Check and find client quotas (KIP-546): limits of users, client ids and addresses, stored as ClientQuotaRecords.

    entity                     keys
    user, client-id, or both   producer_byte_rate, consumer_byte_rate (whole numbers), request_percentage, controller_mutation_rate
    ip                         connection_creation_rate (a whole number)

The name None is the default of its type. Checks and messages are those of Apache Kafka 4.3.1 (ClientQuotaControlManager,
ClientQuotasImage), except that host names are not resolved: only IPv4 and IPv6 addresses are accepted.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from minibroker.cluster.metadata.kept_records import KeptRecords
from minibroker.errors import InvalidRequest, KafkaError, UnsupportedVersion
from minibroker.schemas.internal.setting_records import ClientQuotaRecord, QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
EXACT, DEFAULT, ANY = 0, 1, 2  #: how a component of a filter matches

Entity = Mapping[str, str | None]  #: type -> name

_ORDER: Final = (CLIENT_ID, USER, IP)  #: order of Kafka's hash map
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_INTEGRAL_REMAINDER: Final = 1e-6
_WHOLE: Final = {
    "producer_byte_rate": ("a LONG", _LONG_MAX),
    "consumer_byte_rate": ("a LONG", _LONG_MAX),
    "connection_creation_rate": ("an INT", _INT_MAX),
}
_OF_CLIENTS: Final = {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
_OF_ADDRESSES: Final = {"connection_creation_rate"}


class QuotaAlteration(NamedTuple):
    """Changes of one entity: (key, value), with None to remove a key."""

    entity: Entity
    values: Sequence[tuple[str, float | None]]


class QuotaFilterComponent(NamedTuple):
    """One condition of a filter."""

    entity_type: str
    match_type: int
    match: str | None


def in_order(entity: Entity) -> list[tuple[str, str | None]]:
    """Return the (type, name) pairs of an entity in Kafka's order."""
    return sorted(entity.items(), key=lambda part: _ORDER.index(part[0]) if part[0] in _ORDER else len(_ORDER))


def alter(
    kept: KeptRecords, alterations: Sequence[QuotaAlteration]
) -> tuple[list[ClientQuotaRecord], list[tuple[Entity, KafkaError | None]]]:
    """Check alterations.

    If an entity is listed twice, the first alteration is made, but the answer is the error about the duplicate, as in Apache Kafka.

    Returns:
        The records of valid alterations, and for each entity its error or None.
    """
    records: list[ClientQuotaRecord] = []
    outcomes: dict[frozenset[tuple[str, str | None]], tuple[Entity, KafkaError | None]] = {}
    for entity, values in alterations:
        key = frozenset(entity.items())
        try:
            if key in outcomes or len({name for name, _ in values}) < len(values):
                raise InvalidRequest(f"Ignoring duplicate entity ClientQuotaEntity(entries={_as_java(entity)})")
            keys = _check_entity(entity)
            for name, value in values:
                if value is not None:
                    _check_value(keys, name, value)
        except KafkaError as error:
            outcomes[key] = entity, error
            continue
        outcomes[key] = entity, None
        parts = [QuotaEntity(entity_type=each, entity_name=name) for each, name in in_order(entity)]
        for name, value in values:
            known = kept.quotas.get((key, name))
            if known is None if value is None else known is not None and known.value == value:
                continue
            records.append(ClientQuotaRecord(entity=parts, key=name, value=value or 0.0, remove=value is None))
    return records, list(outcomes.values())


def entity_filter(components: Sequence[QuotaFilterComponent], *, strict: bool) -> Callable[[Entity], bool]:
    """Return a function that decides whether a filter matches an entity. `strict` excludes entities with other types as well.

    Raises:
        InvalidRequest: The filter is invalid.
        UnsupportedVersion: It names an unknown type.
    """
    quota_filter = _check_filter(components)

    def matches(entity: Entity) -> bool:
        if strict and len(entity) != len(quota_filter):
            return False
        return all(each in entity and (match_type == ANY or entity[each] == match) for each, match_type, match in quota_filter)

    return matches


def _check_entity(entity: Entity) -> set[str]:
    """Return the valid quota keys of an entity, or raise InvalidRequest."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    for entity_type, name in in_order(entity):
        if entity_type not in _ORDER:
            raise InvalidRequest(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise InvalidRequest(f"Empty {entity_type} not supported")
    if IP not in entity:
        return _OF_CLIENTS
    if len(entity) > 1:
        raise InvalidRequest("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = entity[IP]
    if address is not None and not _is_address(address):
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return _OF_ADDRESSES


def _check_value(keys: set[str], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if key in _WHOLE:
        kind, largest = _WHOLE[key]
        if value > largest:
            raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
        if value % 1.0 > _INTEGRAL_REMAINDER:
            raise InvalidRequest(f"{key} cannot be a fractional value.")


def _check_filter(components: Sequence[QuotaFilterComponent]) -> Sequence[QuotaFilterComponent]:
    types: set[str] = set()
    for entity_type, match_type, match in components:
        if not entity_type:
            raise InvalidRequest("Invalid empty entity type.")
        if entity_type in types:
            raise InvalidRequest(f"Entity type {entity_type} cannot appear more than once in the filter.")
        if entity_type not in _ORDER:
            raise UnsupportedVersion(f"Unsupported entity type {entity_type}")
        if match_type == EXACT and match is None:
            raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        if match_type in {DEFAULT, ANY} and match is not None:
            name = "MATCH_TYPE_DEFAULT" if match_type == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise InvalidRequest(f"Request specified {name}, but also specified a match string.")
        if match_type not in {EXACT, DEFAULT, ANY}:
            raise InvalidRequest(f"Unknown match type {match_type}")
        types.add(entity_type)
    if IP in types and len(types) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component."
        )
    return components


def _is_address(text: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False


def _as_java(entity: Entity) -> str:
    return "{" + ", ".join(f"{each}={'null' if name is None else name}" for each, name in in_order(entity)) + "}"
