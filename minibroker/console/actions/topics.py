"""Create and delete topics, and delete their oldest or all records."""

from __future__ import annotations

from typing import Any, Final

from minibroker.cluster.partition import Partition
from minibroker.console.asking import check
from minibroker.console.forms import counted, number, planned, text
from minibroker.console.page import Visit
from minibroker.console.rendering import url
from minibroker.schemas import k19_create_topics, k20_delete_topics, k21_delete_records
from minibroker.security.acl import Operation, ResourceType

_TIMEOUT_MS: Final = 30_000
_PREVIEWED_MAX: Final = 200
_DELETION_COLUMNS: Final = {
    "partition": "Partition", "log_start_offset": "Log start", "new_offset": "New log start", "count": "Offsets deleted",
}  # fmt: skip


async def create(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Create a topic: `name`, `partitions`, `replication_factor`, and `configs` with a line for each."""
    name = text(body, "name").strip()
    topic = k19_create_topics.Topic(
        name=name,
        num_partitions=number(body, "partitions", -1, least=-1, most=100_000),
        replication_factor=number(body, "replication_factor", -1, least=-1, most=32_767),
        assignments=[],
        configs=[k19_create_topics.Config(name=key, value=value) for key, value in _lines(text(body, "configs", ""))],
    )
    response = await visit.ask(k19_create_topics.Request(topics=[topic], timeout_ms=_TIMEOUT_MS))
    check(response.topics[0].error_code, response.topics[0].error_message)
    return {"message": f"created topic {name}", "go": url("/topic", name=name)}


def _lines(lines: str) -> list[tuple[str, str]]:
    found = []
    for line in lines.splitlines():
        if line.strip():
            name, equals, value = line.partition("=")
            if not equals:
                raise ValueError(f"configs: {line[:60]!r} must be NAME=VALUE")
            found.append((name.strip(), value.strip()))
    return found


async def delete(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the topic `name`."""
    name = text(body, "name")
    response = await visit.ask(k20_delete_topics.Request(topic_names=[name], timeout_ms=_TIMEOUT_MS), 5)
    check(response.responses[0].error_code, response.responses[0].error_message)
    return {"message": f"deleted topic {name}", "go": "/topics"}


async def preview_delete_records(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Return what `delete_records` would delete."""
    rows = [
        {"partition": each.index, "log_start_offset": log.log_start_offset, "new_offset": new, "count": new - log.log_start_offset}
        for each, offset in _deletions(visit, body)
        if (log := each.online_log) is not None
        and (new := min(max(log.high_watermark if offset < 0 else offset, log.log_start_offset), log.high_watermark)) is not None
    ]
    count = sum(row["count"] for row in rows)
    return planned(
        f"{counted(count, 'offset')} of {counted(len(rows), 'partition')} would be deleted", _DELETION_COLUMNS, rows[:_PREVIEWED_MAX]
    )


async def delete_records(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the records before `offset` (empty: all) in `partition` (empty: all of them) of the topic `name`."""
    name = text(body, "name")
    asked = [k21_delete_records.Partition(partition_index=each.index, offset=offset) for each, offset in _deletions(visit, body)]
    topic = k21_delete_records.Topic(name=name, partitions=asked)
    response = await visit.ask(k21_delete_records.Request(topics=[topic], timeout_ms=_TIMEOUT_MS))
    for result in response.topics[0].partitions:
        check(result.error_code)
    return {"message": f"deleted records of {counted(len(asked), 'partition')} of {name}"}


def _deletions(visit: Visit, body: dict[str, Any]) -> list[tuple[Partition, int]]:
    """Return partitions with the offset before which records are deleted, -1 for all."""
    name = text(body, "name")
    visit.visitor.check(Operation.DELETE, ResourceType.TOPIC, name)  # first: otherwise the error shows which topics exist
    index, offset = number(body, "partition", -1, least=-1, most=2**31 - 1), number(body, "offset", -1, least=-1)
    partitions = visit.host.cluster.topic(name).partitions if index < 0 else [visit.host.cluster.partition(name, index)]
    return [(each, offset) for each in partitions]
