"""Charts of the last 15 minutes."""

from __future__ import annotations

from typing import Any

from minibroker.console.page import Page, Visit
from minibroker.security.acl import Operation, ResourceType


async def metrics(visit: Visit) -> dict[str, Any]:
    """Show the samples of the last 15 minutes."""
    samples = visit.host.samples
    return {
        "interval_s": samples.interval_s,
        "charts": samples.charts(),
        "apis": [{"api": name, "count": count} for name, count in visit.host.observer.by_api.most_common(30)],
        "command": "",
    }


PAGES = (
    Page(
        "/charts", "Metrics", "metrics.html", metrics, live=("charts",), interval_s=5.0,
        needs=(Operation.DESCRIBE, ResourceType.CLUSTER),
    ),
)  # fmt: skip
