"""Forms: their fields, and the preview of what an action would do.

Fields are texts, as browsers send them, or JSON values of other clients. ValueError says what is wrong, for the visitor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LETTERS_MAX: Final = 1 << 20


def text(body: dict[str, Any], name: str, default: str | None = None) -> str:
    """Return a text."""
    value = body.get(name, default)
    if value is None:
        raise ValueError(f"{name} is missing")
    if not isinstance(value, str) or len(value) > LETTERS_MAX:
        raise ValueError(f"{name} must be a string of at most {LETTERS_MAX} characters")
    return value


def number(body: dict[str, Any], name: str, default: int | None = None, *, least: int = -(2**63), most: int = 2**63 - 1) -> int:
    """Return a whole number, or its text."""
    value = body.get(name)
    if value is None or value == "":
        if default is None:
            raise ValueError(f"{name} is missing")
        return default
    try:
        found = value if isinstance(value, int) and not isinstance(value, bool) else int(str(value)[:30])
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {str(value)[:30]!r}") from None
    if not least <= found <= most:
        raise ValueError(f"{name} must be from {least} to {most}, got {found}")
    return found


def flag(body: dict[str, Any], name: str) -> bool:
    """Return whether a box is ticked."""
    return body.get(name) in (True, "true", "on", "1")  # a tuple: the value may be a list


def planned(message: str, columns: Mapping[str, str], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a preview as a table. `columns`: the heading of each field of the rows, in order."""
    return {"message": message, "columns": [*columns.values()], "fields": [*columns], "plan": rows}


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
