"""Quotas as an administrator sets and reads them, in few words: {((type, name), ...): {key: value}}; value None removes."""

from __future__ import annotations

from collections.abc import Mapping

from minibroker.schemas import k48_describe_client_quotas as k48
from minibroker.schemas import k49_alter_client_quotas as k49
from tests.support.broker_in_memory import BrokerInMemory

Entity = tuple[tuple[str, str | None], ...]
Quotas = Mapping[str, float | None]


def entry(entity: Entity, *values: tuple[str, float | None]) -> k49.Entry:
    """What is asked of one entity."""
    return k49.Entry(
        entity=[k49.Entity(entity_type=each, entity_name=name) for each, name in entity],
        ops=[k49.Operation(key=key, value=value or 0.0, remove=value is None) for key, value in values],
    )


def alter(
    broker: BrokerInMemory, *entries: k49.Entry, version: int = 1, validate_only: bool = False
) -> list[tuple[Entity, int, str | None]]:
    """Each entity with its code and message, as they are answered."""
    answer = broker.ask(k49.Request(entries=list(entries), validate_only=validate_only), version)
    return [
        (tuple((part.entity_type, part.entity_name) for part in each.entity), each.error_code, each.error_message)
        for each in answer.entries
    ]


def describe(
    broker: BrokerInMemory, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> dict[Entity, dict[str, float]]:
    """What a filter finds."""
    asked = [k48.Component(entity_type=each, match_type=match_type, match=match) for each, match_type, match in components]
    answer = broker.ask(k48.Request(components=asked, strict=strict), version)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in each.entity): {value.key: value.value for value in each.values}
        for each in answer.entries
    }
