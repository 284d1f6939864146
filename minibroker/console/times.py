"""Times in addresses and forms: epoch milliseconds, ISO 8601, or how long ago. Times as texts, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def time_text(time_ms: int) -> str:
    """Return a time as 2026-01-31 12:00:00.000; the number itself if no calendar has it."""
    try:
        then = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{then:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d}"


def parse_time(text: str, now_ms: int) -> int:
    """Return the epoch milliseconds of `1700000000000`, `2026-01-31T12:00`, or `-5m` (five minutes ago). A time without zone is UTC.

    Raises:
        ValueError: the text is none of these.
    """
    wanted = text.strip()
    if not wanted:
        raise ValueError("a time is missing: epoch milliseconds, 2026-01-31T12:00, or -5m for five minutes ago")
    if wanted.isascii() and wanted.isdecimal() and len(wanted) < 19:
        return int(wanted)
    if wanted.startswith("-"):
        number = wanted[1:].rstrip("msdh")
        unit = wanted[1 + len(number) :]
        if number.isascii() and number.isdecimal() and unit in _UNITS and len(number) < 10:
            return now_ms - int(number) * _UNITS[unit]
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError:
        raise ValueError(f"{wanted[:40]!r} is not a time: use epoch milliseconds, 2026-01-31T12:00, or -5m for five minutes ago") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
