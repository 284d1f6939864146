"""The requests of all clients as they are served, with decoded bodies and errors."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.observer import SeenRequest
from minibroker.console.pace import first, paced
from minibroker.console.page import NotFoundError, Page, Visit
from minibroker.console.values import visible
from minibroker.security.acl import Operation, ResourceType

_SHOWN: Final = 100
#: Bodies name other topics and groups, and configs.
_BODY_NEEDS: Final = (Operation.ALTER, ResourceType.CLUSTER)
_NEEDS: Final = (Operation.DESCRIBE, ResourceType.CLUSTER)


def is_visible(visit: Visit, seen: SeenRequest) -> bool:
    """Return whether the visitor may see every topic, group and transactional id that a request names."""
    entry = seen.entry
    return visit.services.authorizer is None or (
        all(map(visit.may_see_topic, entry.topics))
        and (entry.group is None or visit.may(Operation.DESCRIBE, ResourceType.GROUP, entry.group))
        and (entry.transactional_id is None or visit.may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, entry.transactional_id))
    )


def row_of(seen: SeenRequest) -> dict[str, Any]:
    """Return a request as JSON."""
    entry = seen.entry
    return {
        "number": seen.number,
        "time_ms": entry.time_ms,
        "client_id": visible(entry.client_id or ""),
        "host": entry.client_host,
        "api": entry.api,
        "version": entry.version,
        "topics": [*entry.topics[:5]],
        "topic_count": len(entry.topics),
        "group": entry.group and visible(entry.group),
        "transactional_id": entry.transactional_id and visible(entry.transactional_id),
        "errors": [*entry.errors],
        "outcome": entry.outcome,
        "duration_ms": None if entry.duration_ms is None else round(entry.duration_ms, 2),
        "faults": [*entry.faults],
        "node": entry.node,
        "size": seen.size,
        "response_size": seen.response_size,
    }


async def requests(visit: Visit) -> dict[str, Any]:
    """List the last requests. Parameters: `api`, `client`, `topic`, `group`, `errors=1`, `faults=1`."""
    observer = visit.host.observer
    chosen = (each async for each in paced(observer.latest(), every=50) if _is_wanted(visit, each) and is_visible(visit, each))
    return {
        "api": visit.text("api"),
        "client": visit.text("client"),
        "topic": visit.text("topic"),
        "group": visit.text("group"),
        "errors": visit.text("errors") == "1",
        "count": observer.count,
        "error_count": sum(sum(each.failures.values()) for each in visit.host.meter.apis.values()),
        "kept": len(observer.requests),
        "apis": sorted(each.name for each in visit.host.meter.apis.values()),
        "may_see_bodies": visit.may(*_BODY_NEEDS),
        "requests": [row_of(each) async for each in first(chosen, _SHOWN)],
        "command": "minibroker lab requests" if visit.host.lab is not None else "",
    }


def _is_wanted(visit: Visit, seen: SeenRequest) -> bool:
    entry, query = seen.entry, visit.query
    return (
        (not query.get("api") or entry.api == query["api"])
        and (not query.get("client") or query["client"] in (entry.client_id or ""))
        and (not query.get("topic") or query["topic"] in entry.topics)
        and (not query.get("group") or query["group"] == entry.group)
        and (query.get("errors") != "1" or bool(entry.errors))
        and (query.get("faults") != "1" or bool(entry.faults))
    )


async def request(visit: Visit) -> dict[str, Any]:
    """Show one request and its answer."""
    number = visit.number("number")
    seen = visit.host.observer.find(number)
    if seen is None or not is_visible(visit, seen):
        raise NotFoundError(f"the console no longer has request {number}; it keeps the last {len(visit.host.observer.requests)}")
    client = visit.host.observer.clients.get(seen.connection)
    return row_of(seen) | {
        "body": seen.body,
        "response": seen.response,
        "waits_for": seen.waits_for,
        "connection": None if client is None else client.number,
        "software": f"{seen.connection.client_software_name} {seen.connection.client_software_version}",
        "principal": seen.connection.principal,
        "listener": seen.connection.listener_name,
        "command": "minibroker lab requests" if visit.host.lab is not None else "",
    }


PAGES = (
    Page("/requests", "Requests", "requests.html", requests, live=("list",), needs=_NEEDS),
    Page("/request", "Request", "request.html", request, needs=_BODY_NEEDS, live=("facts",), section="/requests"),
)
