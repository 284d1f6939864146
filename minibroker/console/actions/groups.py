"""Reset the offsets of a group, after a preview, and delete offsets and groups."""

from __future__ import annotations

from typing import Any, Final

from minibroker.client.group_offsets import SHARE
from minibroker.cluster.partition import Partition
from minibroker.console.asking import check
from minibroker.console.forms import counted, number, planned, text
from minibroker.console.page import Visit
from minibroker.console.pages.groups import described_group
from minibroker.console.rendering import url
from minibroker.console.times import parse_time
from minibroker.errors import NonEmptyGroup
from minibroker.schemas import (
    k02_list_offsets,
    k08_offset_commit,
    k42_delete_groups,
    k47_offset_delete,
    k91_alter_share_group_offsets,
    k92_delete_share_group_offsets,
)

_WAYS: Final = ("earliest", "latest", "offset", "shift", "time")
_COLUMNS: Final = {"topic": "Topic", "partition": "Partition", "offset": "Committed", "new_offset": "New", "lag": "Lag"}
_PREVIEWED_MAX: Final = 200
_VERSION: Final = 9  #: of OffsetCommit: the last one that names topics


async def preview_reset(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Return what `reset` would do."""
    plan = await _plan(visit, body)
    return planned(f"{counted(len(plan), 'partition')} would change", _COLUMNS, plan[:_PREVIEWED_MAX])


async def reset(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Set the offsets of the group `id` in `topic` (empty: all its topics) by the way `to`, with `offset`, `shift` or `time`."""
    group_id = text(body, "id")
    described, _ = await described_group(visit, group_id)
    if described.state not in {"Empty", "Dead"}:
        raise NonEmptyGroup(f"group {group_id} is {described.state}: stop its {len(described.members)} members first")
    plan = await _plan(visit, body)
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in plan:
        by_topic.setdefault(row["topic"], []).append(row)
    await (_reset_share(visit, group_id, by_topic) if described.type == SHARE else _commit(visit, group_id, by_topic))
    return {"message": f"reset {counted(len(plan), 'partition')} of {group_id}", "go": url("/group", id=group_id)}


async def _plan(visit: Visit, body: dict[str, Any]) -> list[dict[str, Any]]:
    way, wanted_topic = text(body, "to", "earliest"), text(body, "topic", "")
    if way not in _WAYS:
        raise ValueError(f"to must be one of {', '.join(_WAYS)}, got {way[:30]!r}")
    _, offsets = await described_group(visit, text(body, "id"))
    rows = [row for row in offsets if wanted_topic in {"", row["topic"]}]
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


async def delete_offsets(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the offsets of the group `id` in `topic`, of one `partition` or of all (empty). A share group forgets whole topics."""
    group_id, topic = text(body, "id"), text(body, "topic")
    described, offsets = await described_group(visit, group_id)
    index = number(body, "partition", -1, least=-1, most=2**31 - 1)
    if described.type == SHARE:
        if index >= 0:
            raise ValueError("a share group has no offsets of single partitions to delete: leave the partition empty")
        return await _delete_share_offsets(visit, group_id, topic)
    wanted = [row["partition"] for row in offsets if row["topic"] == topic and row["offset"] is not None]
    partitions = [k47_offset_delete.Partition(partition_index=each) for each in (wanted if index < 0 else [index])]
    if not partitions:
        raise ValueError(f"the group has no offset of topic {topic[:100]}")
    topics = [k47_offset_delete.Topic(name=topic, partitions=partitions)]
    response = await visit.ask(k47_offset_delete.Request(group_id=group_id, topics=topics))
    check(response.error_code)
    for result in response.topics[0].partitions:
        check(result.error_code)
    return {"message": f"deleted {counted(len(partitions), 'offset')} of {group_id}", "go": url("/group", id=group_id)}


async def _delete_share_offsets(visit: Visit, group_id: str, topic: str) -> dict[str, Any]:
    schema = k92_delete_share_group_offsets
    response = await visit.ask(schema.Request(group_id=group_id, topics=[schema.Topic(topic_name=topic)]))
    check(response.error_code, response.error_message)
    check(response.responses[0].error_code, response.responses[0].error_message)
    return {"message": f"{group_id} starts again in {topic}", "go": url("/group", id=group_id)}


async def delete(visit: Visit, body: dict[str, Any]) -> dict[str, Any]:
    """Delete the group `id`."""
    group_id = text(body, "id")
    response = await visit.ask(k42_delete_groups.Request(groups_names=[group_id]))
    check(response.results[0].error_code)
    return {"message": f"deleted group {group_id}", "go": "/groups"}
