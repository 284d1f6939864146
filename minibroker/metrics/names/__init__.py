"""The metrics that /metrics can have, in sets that are selected by name."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from minibroker.errors import ConfigurationError
from minibroker.metrics.family import Family
from minibroker.metrics.names.exporters import BURROW, KAFKA_EXPORTER, KMINION, LAG, OTEL, REDPANDA
from minibroker.metrics.names.jmx import JMX, REPORTER
from minibroker.metrics.names.own import OWN

ALL: Final = {each.name: each for each in (KAFKA_EXPORTER, JMX, OWN, REPORTER, KMINION, LAG, BURROW, REDPANDA, OTEL)}
DEFAULT: Final = ("kafka_exporter", "jmx", "minibroker")


def families_of(names: Iterable[str]) -> tuple[Family, ...]:
    """Return the families of some sets, each name once. ConfigurationError: there is no such set."""
    chosen: dict[str, Family] = {}
    for name in names:
        if name not in ALL:
            raise ConfigurationError(f"metrics: {name!r} is not a set of names; choose from {', '.join(ALL)}")
        for family in ALL[name].families:
            chosen.setdefault(family.name, family)
    return tuple(each._replace(kind="untyped") if _clashes(each, chosen) else each for each in chosen.values())


def _clashes(family: Family, chosen: Container[str]) -> bool:
    """Whether OpenMetrics would give a counter the name of another family: it leaves _total out of the name."""
    return family.kind == "counter" and family.name.removesuffix("_total") in chosen
