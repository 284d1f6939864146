"""Parse topics or some of their partitions, as Kafka's tools do: `orders`, `orders:0,2,5-7`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from minibroker.cli.offsets import Partitions
from minibroker.client.leaders import TopicPartition

Scope = tuple[str, frozenset[int] | None]


class TopicPartitions(click.ParamType[Scope]):
    """A topic's name and its partitions; None for all of them. A topic's name has no colon."""

    name = "topic"

    def convert(self, value: str | Scope, param: click.Parameter | None, ctx: click.Context | None) -> Scope:
        """Return the name and the partitions."""
        if isinstance(value, tuple):
            return value
        topic, colon, partitions = value.partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic", param, ctx)
        return topic, Partitions().convert(partitions, param, ctx) if colon else None


def partitions_of(scopes: Iterable[Scope], there: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Return the requested partitions: those with a number, and of whole topics those in `there`."""
    existing = list(there)
    found: set[TopicPartition] = set()
    for topic, indexes in scopes:
        found |= {key for key in existing if key[0] == topic} if indexes is None else {(topic, index) for index in indexes}
    return found
