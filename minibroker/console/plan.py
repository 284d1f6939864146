"""What an action would do, as a table that the form shows before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def planned(message: str, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a preview. `columns`: the heading of each field of the rows, in order."""
    return {"message": message, "columns": [*columns.values()], "fields": [*columns], "plan": rows}


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
