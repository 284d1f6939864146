"""Sizes in readable units."""

from __future__ import annotations

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size: int) -> str:
    """Return bytes with three digits: 987 B, 1.23 MB; a kB is 1000 B."""
    value = float(size)
    for unit in UNITS:
        if value < 999.5 or unit == UNITS[-1]:
            break
        value /= 1000
    return f"{size} B" if unit == "B" else f"{value:#.3g}".rstrip(".") + f" {unit}"
