"""`Difference`: what a row of docs/differences.md says. `differences.py` has all of them."""

from __future__ import annotations

from typing import Final, NamedTuple


class Difference(NamedTuple):
    """One deliberate difference that a client or an operator notices, its reason, and what `minibroker.like.kafka` changes."""

    name: str  #: used by tests
    area: str  #: one of AREAS
    kafka: str  #: what Apache Kafka 4.3.1 does
    here: str  #: what minibroker does
    reason: str
    remains: str = ""  #: what the switch does not change, and why; empty: it turns the difference off
    properties: tuple[str, ...] = ()  #: properties whose default or effect differs
    apis: tuple[str, ...] = ()  #: APIs whose answers the switch changes, by Kafka's names

    @property
    def is_switched(self) -> bool:
        """Whether `minibroker.like.kafka` turns the difference off, at least in part."""
        return not self.remains or self.remains.startswith(PARTLY)


PARTLY: Final = "In part: "
AREAS: Final = ("Groups", "Topics", "Transactions", "Connections and versions", "Several brokers", "Storage", "Errors and answers")
