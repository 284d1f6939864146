"""Reset the offsets of a group, after a preview, and delete groups."""

from __future__ import annotations

from typing import Any, Final

from minibroker.client.group_offsets import SHARE
from minibroker.cluster.partition import Partition
from minibroker.console.asking import check
from minibroker.console.fields import number, text
from minibroker.console.page import Visit
from minibroker.console.pages.groups import group
from minibroker.console.rendering import url
from minibroker.console.times import parse_time
from minibroker.errors import NonEmptyGroup
from minibroker.schemas import k02_list_offsets, k08_offset_commit, k42_delete_groups, k91_alter_share_group_offsets

_WAYS: Final = ("earliest", "latest", "offset", "shift", "time")
_VERSION: Final = 9  #: of OffsetCommit: the last one that names topics


async def preview_reset(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Return what `reset` would do."""
    plan = await _plan(visit, body)
    return {"message": f"{len(plan)} partitions would change", "plan": plan}


async def reset(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Set the offsets of the group `id` in `topic` (empty: all its topics) by the way `to`, with `offset`, `shift` or `time`."""
    group_id = text(body, "id")
    described = await _group(visit, group_id)
    if described["state"] not in {"Empty", "Dead"}:
        raise NonEmptyGroup(f"group {group_id} is {described['state']}: stop its {described['member_count']} members first")
    plan = await _plan(visit, body)
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in plan:
        by_topic.setdefault(row["topic"], []).append(row)
    await (_reset_share(visit, group_id, by_topic) if described["type"] == SHARE else _commit(visit, group_id, by_topic))
    return {"message": f"reset {len(plan)} partitions of {group_id}", "plan": plan, "go": url("/group", id=group_id)}


async def _group(visit: Visit, group_id: str) -> dict[str, Any]:
    return await group(Visit(visit.host, visit.visitor, {"id": group_id}, is_read_only=visit.is_read_only))


async def _plan(visit: Visit, body: dict[str, Any]) -> list[dict[str, Any]]:
    way, wanted_topic = text(body, "to", "earliest"), text(body, "topic", "")
    if way not in _WAYS:
        raise ValueError(f"to must be one of {', '.join(_WAYS)}, got {way[:30]!r}")
    described = await _group(visit, text(body, "id"))
    rows = [row for row in described["offsets"] if wanted_topic in {"", row["topic"]}]
    at_time = await _at_time(visit, rows, parse_time(text(body, "time"), visit.host.now_ms())) if way == "time" else {}
    plan = []
    for row in rows:
        found = visit.host.cluster.topics.get(row["topic"])
        if found is None or row["partition"] >= len(found.partitions):
            continue
        partition = found.partitions[row["partition"]]
        log = partition.log
        wanted = _wanted(body, way, row, partition, at_time)
        new = min(max(wanted, log.log_start_offset), log.high_watermark)
        plan.append({"topic": row["topic"], "partition": row["partition"], "offset": row["offset"], "new_offset": new,
                     "lag": log.high_watermark - new})  # fmt: skip
    return plan


def _wanted(body: dict[str, Any], way: str, row: dict[str, Any], partition: Partition, at_time: dict[tuple[str, int], int]) -> int:
    log = partition.log
    if way == "earliest":
        return log.log_start_offset
    if way == "latest":
        return log.high_watermark
    if way == "offset":
        return number(body, "offset", least=0)
    if way == "shift":
        return (row["offset"] or 0) + number(body, "shift")
    return at_time.get((row["topic"], row["partition"]), log.high_watermark)


async def _at_time(visit: Visit, rows: list[dict[str, Any]], moment_ms: int) -> dict[tuple[str, int], int]:
    topics: dict[str, list[Any]] = {}
    for row in rows:
        topics.setdefault(row["topic"], []).append(k02_list_offsets.Partition(partition_index=row["partition"], timestamp=moment_ms))
    asked = [k02_list_offsets.Topic(name=name, partitions=partitions) for name, partitions in topics.items()]
    response = await visit.ask(k02_list_offsets.Request(replica_id=-1, topics=asked))
    return {
        (topic.name, each.partition_index): each.offset
        for topic in response.topics
        for each in topic.partitions
        if not each.error_code and each.offset >= 0
    }


async def _commit(visit: Visit, group_id: str, by_topic: dict[str, list[dict[str, Any]]]) -> None:
    topics = [
        k08_offset_commit.Topic(
            name=name,
            partitions=[
                k08_offset_commit.Partition(partition_index=row["partition"], committed_offset=row["new_offset"], committed_metadata="")
                for row in rows
            ],
        )
        for name, rows in by_topic.items()
    ]
    response = await visit.ask(k08_offset_commit.Request(group_id=group_id, member_id="", topics=topics), _VERSION)
    for topic in response.topics:
        for each in topic.partitions:
            check(each.error_code)


async def _reset_share(visit: Visit, group_id: str, by_topic: dict[str, list[dict[str, Any]]]) -> None:
    schema = k91_alter_share_group_offsets
    topics = [
        schema.Topic(
            topic_name=name,
            partitions=[schema.Partition(partition_index=row["partition"], start_offset=row["new_offset"]) for row in rows],
        )
        for name, rows in by_topic.items()
    ]
    response = await visit.ask(schema.Request(group_id=group_id, topics=topics))
    check(response.error_code, response.error_message)
    for topic in response.responses:
        for each in topic.partitions:
            check(each.error_code, each.error_message)


async def delete(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the group `id`."""
    group_id = text(body, "id")
    response = await visit.ask(k42_delete_groups.Request(groups_names=[group_id]))
    check(response.results[0].error_code)
    return {"message": f"deleted group {group_id}", "go": "/groups"}
