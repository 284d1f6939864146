"""Points in time as users write them: milliseconds since 1970, or an ISO 8601 date with or without time and zone."""

from __future__ import annotations

from datetime import UTC, datetime


def epoch_ms(text: str) -> int:
    """`1357034400000`, `2013-01-01`, `2013-01-01T10:00:00Z`, `...+01:00`; without a zone it is UTC. ValueError for another text."""
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since_1970.days * 86_400_000 + since_1970.seconds * 1000 + since_1970.microseconds // 1000
