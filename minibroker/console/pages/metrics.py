"""Charts of the last 15 minutes."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.page import Page, Visit
from minibroker.metrics.counts import ApiCounts
from minibroker.security.acl import Operation, ResourceType

_APIS_SHOWN: Final = 30


async def metrics(visit: Visit) -> dict[str, Any]:
    """Show the samples of the last 15 minutes."""
    samples = visit.host.samples
    return {
        "interval_s": samples.interval_s,
        "charts": samples.charts(),
        "apis": [_api_row(each) for each in sorted(visit.host.meter.apis.values(), key=_count, reverse=True)[:_APIS_SHOWN]],
        "command": "minibroker lab metrics minibroker_requests_total" if visit.host.lab is not None else "",
    }


def _count(counts: ApiCounts) -> int:
    return sum(counts.requests.values())


def _api_row(counts: ApiCounts) -> dict[str, Any]:
    has_times = counts.total.count > 0
    return {
        "api": counts.name,
        "count": _count(counts),
        "errors": sum(counts.failures.values()),
        "median_ms": round(counts.total.quantile(0.5) * 1000, 2) if has_times else None,
        "p99_ms": round(counts.total.quantile(0.99) * 1000, 2) if has_times else None,
    }


PAGES = (
    Page(
        "/charts", "Metrics", "metrics.html", metrics, live=("charts",), interval_s=5.0,
        needs=(Operation.DESCRIBE, ResourceType.CLUSTER),
    ),
)  # fmt: skip
