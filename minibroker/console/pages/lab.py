"""The lab: faults, held high watermarks, leaders, brokers, the clock, snapshots."""

from __future__ import annotations

from typing import Any, Final

from minibroker.console.page import NotFoundError, Page, Visit, rows_of
from minibroker.security.acl import Operation, ResourceType

_PARTITIONS: Final = 50
_EXAMPLES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Produce fails once", {"kind": "error", "api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "often": {"times": 1}}),
    ("Fetch is 2 s late", {"kind": "delay", "api": "Fetch", "ms": 2000}),
    ("Commits fail", {"kind": "error", "api": "OffsetCommit", "error": "COORDINATOR_LOAD_IN_PROGRESS"}),
    ("Producers lose their connection", {"kind": "disconnect", "api": "Produce"}),
    ("Metadata is not answered", {"kind": "silence", "api": "Metadata"}),
)


async def lab(visit: Visit) -> dict[str, Any]:
    """Show the state of the lab."""
    found = visit.host.lab
    if found is None:
        raise NotFoundError("this broker has no lab: start it with --lab-port")
    partitions = [each for topic in visit.host.cluster.topics.values() if not topic.is_internal for each in topic.partitions]
    rows = rows_of(visit, partitions, _PARTITIONS)
    leaders = [
        {"topic": each.topic, "partition": each.index}
        | await found.execute("leaders.describe", {"topic": each.topic, "partition": each.index})
        for each in rows.items
    ]
    return {
        **rows.to_json(),
        "now_ms": visit.host.now_ms(),
        "info": await found.execute("info", {}),
        "faults": [_fault(each) for each in await found.execute("faults.list", {})],
        "holds": await found.execute("high_watermark.list", {}),
        "snapshots": await found.execute("snapshots", {}),
        "nodes": sorted(node.node.node_id for node in visit.host.broker.nodes),
        "alive": await found.execute("nodes.alive", {}),
        "leaders": leaders,
        "operations": found.table.describe(),
        "examples": [{"name": name, "rule": rule} for name, rule in _EXAMPLES],
        "command": "minibroker lab info",
    }


def _fault(fault: dict[str, Any]) -> dict[str, Any]:
    """Return a fault with its counts apart from its rule."""
    counts = {name: fault.get(name) for name in ("id", "calls", "hits")}
    return counts | {"rule": {name: value for name, value in fault.items() if name not in counts and value not in ({}, None, False)}}


PAGES = (
    Page(
        "/lab", "Lab", "lab.html", lab, live=("clock", "faults", "holds", "leaders", "snapshots", "brokers"), interval_s=1.0,
        needs=(Operation.ALTER, ResourceType.CLUSTER),
    ),
)  # fmt: skip
