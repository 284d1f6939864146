"""The form that produces records."""

from __future__ import annotations

from typing import Any

from minibroker.console.page import Page, Visit
from minibroker.console.pages.topics import quoted
from minibroker.security.acl import Operation, ResourceType


async def produce(visit: Visit) -> dict[str, Any]:
    """Show the form."""
    topic = visit.topic("topic")
    return {
        "topic": topic.name,
        "partition_count": len(topic.partitions),
        "has_registry": visit.host.decoder is not None,
        "is_internal": topic.is_internal,
        "may_write": not visit.is_read_only and visit.may(Operation.WRITE, ResourceType.TOPIC, topic.name),
        "command": f"minibroker produce {quoted(topic.name)} --input jsonl",
    }


PAGES = (Page("/produce", "Produce", "produce.html", produce, section="/topics"),)
