"""The first page: addresses to paste, what there is, what went wrong lately, and what `minibroker doctor` finds."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import minibroker
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.console.observer import SeenRequest
from minibroker.console.pace import first, paced
from minibroker.console.page import Page, Visit
from minibroker.console.pages.lags import stored_groups
from minibroker.console.pages.requests import is_visible, row_of
from minibroker.console.snippets import snippets_of
from minibroker.security.acl import Operation, ResourceType

_LATELY_MS: Final = 5 * 60_000
_ERRORS_SHOWN: Final = 8
_USUAL: Final = "MEMBER_ID_REQUIRED"  #: a step of every member that joins a classic group


async def overview(visit: Visit) -> dict[str, Any]:
    """Show the broker."""
    host = visit.host
    cluster, broker = host.cluster, host.broker
    partition_count = topic_count = record_count = size = 0
    async for topic in paced(list(cluster.topics.values())):
        if not visit.may_see_topic(topic.name):
            continue
        partition_count += len(topic.partitions)
        topic_count += not topic.is_internal
        if not topic.is_internal:
            logs = [log for each in topic.partitions if (log := each.online_log) is not None]
            record_count += sum(log.log_end_offset - log.log_start_offset for log in logs)
            size += sum(log.segments.size for log in logs)
    may_see_clients = visit.may_see_cluster
    errors = await _errors(visit) if may_see_clients else []
    listeners = [
        (each.name, each.protocol, f"{each.host or 'localhost'}:{each.port}") for node in broker.nodes for each in node.node.listeners
    ]
    return {
        "cluster_id": cluster.cluster_id,
        "version": minibroker.__version__,
        "node_ids": sorted(node.node.node_id for node in broker.nodes),
        "uptime_ms": int((time.monotonic() - host.started_s) * 1000),
        "topic_count": topic_count,
        "partition_count": partition_count,
        "record_count": record_count,
        "size": size if may_see_clients else None,
        "group_count": await _group_count(visit),
        "connection_count": len(host.connections) if may_see_clients else None,
        "request_count": host.observer.count if may_see_clients else None,
        "log_dirs": [
            {
                "path": each.path,
                "is_online": each.offline_cause is None,
                "why": "" if each.offline_cause is None else str(each.offline_cause),
            }
            for each in cluster.log_directories
        ]
        if may_see_clients
        else [],
        "listeners": [
            {"name": name, "protocol": protocol, "address": address}
            for name, protocol, address in (listeners if may_see_clients else listeners[:1])
        ],
        "snippets": snippets_of(",".join(address for name, _, address in listeners if name == listeners[0][0]), listeners[0][1]),
        "errors": [row_of(each) for each in errors],
        "has_lab": host.lab is not None,
        "command": "minibroker doctor",
    }


async def _errors(visit: Visit) -> list[SeenRequest]:
    """Return the last requests that were answered with an error."""
    observer, min_time_ms = visit.host.observer, visit.host.now_ms() - _LATELY_MS
    failed = (each async for each in paced(observer.errors(min_time_ms, without=_USUAL), every=50) if is_visible(visit, each))
    return [each async for each in first(failed, _ERRORS_SHOWN)]


async def _group_count(visit: Visit) -> int:
    if CONSUMER_OFFSETS_TOPIC not in visit.host.cluster.topics:
        return 0
    count = 0
    async for group_id, _ in paced(stored_groups(visit)):
        count += visit.may(Operation.DESCRIBE, ResourceType.GROUP, group_id)
    return count


async def doctor(visit: Visit) -> dict[str, Any]:
    """Connect to the broker as a client of this machine does, and show what `minibroker doctor` finds."""
    broker = visit.host.broker
    plain = [each for node in broker.nodes for each in node.node.listeners if each.protocol == "PLAINTEXT"]
    if not plain:
        text = "Every listener asks for a login or a certificate: run 'minibroker doctor' with the properties of a client."
        return {"findings": [{"severity": "note", "subject": "listeners", "text": text, "advice": ""}], "command": "minibroker doctor"}
    address = f"{plain[0].host or 'localhost'}:{plain[0].port}"
    findings = await asyncio.to_thread(_findings, address)
    return {"findings": findings, "command": "minibroker doctor"}


def _findings(bootstrap: str) -> list[dict[str, str]]:
    from minibroker.client.doctor.addresses import Network, resolve  # noqa: PLC0415  as above
    from minibroker.client.doctor.checkup import Checkup  # noqa: PLC0415  the rest of the page does not need a client
    from minibroker.client.transport import parse_bootstrap  # noqa: PLC0415  as above

    checkup = Checkup(Network(resolve), 2_000)
    return [finding._asdict() for finding in checkup.findings(parse_bootstrap(bootstrap))]


PAGES = (
    Page("/", "Overview", "overview.html", overview, live=("facts", "errors"), interval_s=2.0),
    Page("/doctor", "Doctor", "doctor.html", doctor, section="/", needs=(Operation.DESCRIBE, ResourceType.CLUSTER)),
)
