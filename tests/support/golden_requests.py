"""The golden frames of one API."""

from __future__ import annotations

from tests.golden import all_golden


def requests_of(stem: str) -> list[str]:
    """The names of the golden requests of an API."""
    return sorted(name for name, each in all_golden().items() if each.stem == stem and each.direction == "request")
