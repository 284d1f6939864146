"""Parse points in time and durations that users write."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:[.](\d{1,9}))?S)?)?", re.IGNORECASE | re.ASCII)


def epoch_ms(text: str) -> int:
    """Parse `1357034400000`, `2013-01-01`, `2013-01-01T10:00:00Z` or `...+01:00`; without a zone, the time is UTC. ValueError otherwise."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: epoch ms, or an ISO date such as 2013-06-01 or 2013-06-01T05:15:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_1970 = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return since_1970.days * 86_400_000 + since_1970.seconds * 1000 + since_1970.microseconds // 1000


def duration_ms(text: str) -> int:
    """Parse `P2DT3H4M5.5S` (ISO 8601, parts optional) as java.time.Duration does; fractions below 1 ms are cut. ValueError otherwise."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration like P2DT3H4M5S")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    thousandths = int((match[5] or "0").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + thousandths
