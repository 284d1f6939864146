"""Connections of clients: software, APIs, the last request, what they wait for, fetch sessions, and their own metrics."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.forms import counted
from minibroker.console.observer import ClientActivity, SeenRequest
from minibroker.console.pace import first, paced
from minibroker.console.page import NotFoundError, Page, Visit, rows_of
from minibroker.console.pages.requests import is_visible, row_of
from minibroker.console.values import visible
from minibroker.security.acl import Operation, ResourceType
from minibroker.testing.request_log import WAITING

_NEEDS: Final = (Operation.DESCRIBE, ResourceType.CLUSTER)
_PARTITIONS_SHOWN: Final = 50
_REQUESTS_SHOWN: Final = 50
_SAMPLES_SHOWN: Final = 300


async def clients(visit: Visit) -> dict[str, Any]:
    """List the connections of clients."""
    wanted = visit.text("q").lower()
    found = [_row(visit, connection) for connection in visit.host.connections]
    chosen = [row for row in found if wanted in f"{row['client_id']} {row['software']} {row['host']} {row['principal']}".lower()]
    rows = rows_of(visit, sorted(chosen, key=lambda row: row["number"] or 0))
    telemetry = [_instance(each) for each in _telemetry(visit)]
    return {"q": visit.text("q"), **rows.to_json(), "clients": rows.items, "telemetry": telemetry[:100], "command": _command(visit)}


def _command(visit: Visit) -> str:
    return "minibroker lab clients" if visit.host.lab is not None else ""


def _row(visit: Visit, connection: Any) -> dict[str, Any]:
    info = connection.info
    activity = visit.host.observer.clients.get(info)
    last = None if activity is None else activity.last
    is_waiting = last is not None and last.entry.outcome == WAITING
    return {
        "number": None if activity is None else activity.number,
        "client_id": visible("" if activity is None else activity.client_id or ""),
        "host": info.client_host,
        "channel": getattr(connection, "channel", ""),
        "software": visible(f"{info.client_software_name} {info.client_software_version}"),
        "listener": info.listener_name,
        "security_protocol": info.security_protocol,
        "principal": visible(info.principal),
        "request_count": 0 if activity is None else activity.request_count,
        "error_count": 0 if activity is None else activity.error_count,
        "received": 0 if activity is None else activity.received,
        "sent": 0 if activity is None else activity.sent,
        "last_api": None if last is None else f"{last.entry.api} v{last.entry.version}",
        "last_ms": None if last is None else last.entry.time_ms,
        "is_waiting": is_waiting,
        "waits_for": _waits_for(visit, last) if is_waiting and last is not None else "",
    }


def _waits_for(visit: Visit, last: SeenRequest) -> str:
    """Return in words what a request waits for."""
    waits, entry = last.waits_for, last.entry
    if not is_visible(visit, last):
        return "an answer"
    where = f" of {', '.join(entry.topics[:3])}" if entry.topics else f" in group {visible(entry.group)}" if entry.group else ""
    if "max_wait_ms" in waits:
        session = f", session {waits['session_id']}" if waits.get("session_id") else ""
        return f"at least {counted(waits.get('min_bytes', 1), 'byte')}{where}, at most {waits['max_wait_ms']} ms{session}"
    if "rebalance_timeout_ms" in waits:
        return f"other members{where}, at most {waits['rebalance_timeout_ms']} ms"
    return f"an answer{where}"


async def client(visit: Visit) -> dict[str, Any]:
    """Show one connection."""
    number = visit.number("number")
    observer = visit.host.observer
    for connection in visit.host.connections:
        activity = observer.clients.get(connection.info)
        if activity is not None and activity.number == number:
            info = connection.info
            return {
                **_row(visit, connection),
                "first_ms": activity.first_ms,
                "apis": [{"api": name, "version": uses[0], "count": uses[1]} for name, uses in sorted(activity.apis.items())],
                "requests": [row_of(each) for each in await _requests(visit, info)],
                "sessions": _sessions(visit, activity),
                "telemetry": [_instance(each, visit) for each in _telemetry(visit) if _is_of(each, activity, info)],
                "command": _command(visit),
            }
    raise NotFoundError(f"connection {number} is closed or never existed")


async def _requests(visit: Visit, info: Any) -> list[SeenRequest]:
    kept = paced(visit.host.observer.latest(), every=50)
    return [
        each async for each in first((each async for each in kept if each.connection is info and is_visible(visit, each)), _REQUESTS_SHOWN)
    ]


def _sessions(visit: Visit, activity: ClientActivity) -> list[dict[str, Any]]:
    """Return the fetch sessions that the last requests of a client named."""
    cache = visit.services.fetch_sessions
    numbers = dict.fromkeys(
        each.waits_for["session_id"]
        for each in visit.host.observer.latest()
        if each.waits_for.get("session_id") and activity.last is not None and each.connection is activity.last.connection
    )
    found = []
    for number in list(numbers)[:5]:
        session = None if cache is None else cache.get(number)
        if session is None:
            continue
        partitions = []
        for each in list(session.partitions.values())[:_PARTITIONS_SHOWN]:
            topic = (
                each.topic if isinstance(each.topic, str) else getattr(visit.image.topics_by_id.get(each.topic), "name", str(each.topic))
            )
            if not visit.may_see_topic(topic):
                continue
            partitions.append({"topic": topic, "partition": each.entry.partition, "fetch_offset": each.entry.fetch_offset})
        found.append(
            {"session_id": number, "epoch": session.epoch, "used_ms": session.used_ms, "partition_count": len(session.partitions),
             "partitions": partitions}
        )  # fmt: skip
    return found


def _telemetry(visit: Visit) -> list[Any]:
    """Return the clients that push metrics (KIP-714), if the broker takes them."""
    telemetry = getattr(visit.services, "telemetry", None)
    return [] if telemetry is None else telemetry.clients()


def _is_of(instance: Any, activity: ClientActivity, info: Any) -> bool:
    return bool(instance.client_id == activity.client_id and instance.host == info.client_host)


def _instance(instance: Any, visit: Visit | None = None) -> dict[str, Any]:
    """Return a client that pushes metrics; with a visit, also the metrics, as far as the visitor may see the topics in them."""
    samples = (
        [] if visit is None else [each for each in instance.metrics.samples() if visit.may_see_topic(dict(each.labels).get("topic", ""))]
    )
    return {
        "instance_id": str(instance.instance_id),
        "client_id": visible(instance.client_id or ""),
        "software": visible(f"{instance.software_name} {instance.software_version}"),
        "host": instance.host,
        "last_push_ms": instance.last_push_ms or None,
        "push_count": instance.push_count,
        "is_connected": instance.is_connected,
        "samples": [
            {"name": each.name, "labels": dict(each.labels), "value": each.value, "unit": each.unit, "kind": each.kind}
            for each in samples[:_SAMPLES_SHOWN]
        ],
        "sample_count": len(samples),
    }


async def instance(visit: Visit) -> dict[str, Any]:
    """Show a client that pushes metrics, or that pushed some and has closed."""
    wanted = visit.text("id")
    for each in _telemetry(visit):
        if str(each.instance_id) == wanted:
            return {**_instance(each, visit), "command": f"{command} --metrics" if (command := _command(visit)) else ""}
    raise NotFoundError(f"no client with the instance id {visible(wanted)[:50]!r} has pushed metrics lately")


PAGES = (
    Page("/clients", "Clients", "clients.html", clients, live=("list",), needs=_NEEDS),
    Page("/client", "Client", "client.html", client, live=("facts", "metrics", "requests"), needs=_NEEDS, section="/clients"),
    Page("/instance", "Client", "instance.html", instance, live=("metrics",), interval_s=5.0, needs=_NEEDS, section="/clients"),
)
