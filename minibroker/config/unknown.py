"""What to say of properties that are in no table: nothing, why they have no effect, or which name is the nearest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from minibroker.config.broker_properties import BROKER_PROPERTIES
from minibroker.config.kafka_only import KAFKA_ONLY, ignored

_TYPING_ERROR = 0.9  #: how alike names are that differ by a letter or two


def warnings_of(unknown: Mapping[str, str], variables: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """A line for each reason or name that the operator should hear of; values that say nothing are passed over.

    `variables`: which variable of the environment says a property; it is named beside it.
    """
    by_reason: dict[str, list[str]] = {}
    lines = []
    for name in sorted(unknown):
        why = ignored(name)
        of_a_family = why is not None and name not in KAFKA_ONLY
        if why is None or (of_a_family and nearest(name, BROKER_PROPERTIES, _TYPING_ERROR)):
            near = nearest(name, BROKER_PROPERTIES)
            said = f" ({variables[name]})" if name in variables else ""
            lines.append(f"unknown property {name}{said} is ignored{f': did you mean {near}?' if near else ''}")
        elif why.is_warned_of and unknown[name].strip():
            by_reason.setdefault(why.reason, []).append(name)
    return lines + [f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect: {reason}" for reason, names in by_reason.items()]


def nearest(name: str, known: Iterable[str], likeness: float = 0.7) -> str | None:
    """The known name that is most like this one, if there is one that is as like it (1: the same)."""
    import difflib  # noqa: PLC0415  only a mistyped name needs it

    matches = difflib.get_close_matches(name, known, n=1, cutoff=likeness)
    return matches[0] if matches else None
