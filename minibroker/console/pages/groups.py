"""Groups of all four kinds, and one group: members, offsets with lag, events, states of share records."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

from minibroker.client.group_offsets import SHARE
from minibroker.client.groups import CLASSIC, CONSUMER, STREAMS, DescribedGroup, GroupMember, described
from minibroker.cluster.partition import Partition
from minibroker.cluster.topic import CONSUMER_OFFSETS_TOPIC
from minibroker.console.asking import check
from minibroker.console.pace import paced
from minibroker.console.page import NotFoundError, Page, Visit, rows_of
from minibroker.console.pages.configs import configs_of
from minibroker.console.pages.lags import is_at_end, lag_of, offsets_of
from minibroker.console.pages.share_states import share_partitions_of
from minibroker.console.pages.topics import quoted
from minibroker.console.values import visible
from minibroker.errors import GroupIdNotFound
from minibroker.schemas import (
    k09_offset_fetch,
    k15_describe_groups,
    k16_list_groups,
    k69_consumer_group_describe,
    k77_share_group_describe,
    k89_streams_group_describe,
    k90_describe_share_group_offsets,
)
from minibroker.security.acl import Operation, ResourceType

_SCHEMAS: Final[dict[str, ModuleType]] = {
    CONSUMER: k69_consumer_group_describe,
    SHARE: k77_share_group_describe,
    STREAMS: k89_streams_group_describe,
}
_MEMBERS_SHOWN: Final = 200
_OFFSETS_SHOWN: Final = 500


async def groups(visit: Visit) -> dict[str, Any]:
    """List groups whose id contains the parameter `q`."""
    wanted = visit.text("q").lower()
    listed: list[Any] = []
    if CONSUMER_OFFSETS_TOPIC in visit.host.cluster.topics:
        response = await visit.ask(k16_list_groups.Request(states_filter=[], types_filter=[]))
        check(response.error_code)
        listed = [each async for each in paced(response.groups) if wanted in each.group_id.lower()]
    rows = rows_of(visit, sorted(listed, key=lambda each: each.group_id))
    items = []
    async for each in paced(rows.items, every=1):
        may_describe = visit.may(Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
        offsets = offsets_of(visit, each.group_id) if may_describe else {}
        committed = {key: value for key, value in offsets.items() if visit.may_see_topic(key[0])}
        lags = [lag for (topic, index), value in committed.items() if (lag := lag_of(_find(visit, topic, index), value.offset)) is not None]
        items.append(
            {
                "group": each.group_id,
                "shown": visible(each.group_id),
                "type": each.group_type or CLASSIC,
                "state": each.group_state,
                "protocol_type": each.protocol_type,
                "partition_count": len(committed),
                "lag": sum(lags) if committed else None,
            }
        )
    return {"q": visit.text("q"), **rows.to_json(), "groups": items, "command": "minibroker groups list"}


async def group(visit: Visit) -> dict[str, Any]:
    """Show a group."""
    group_id = visit.text("id")
    found, offsets = await described_group(visit, group_id)
    known = [row["lag"] for row in offsets if row["lag"] is not None]
    return {
        "group": group_id,
        "shown": visible(group_id),
        "type": found.type,
        "state": found.state,
        "protocol_type": found.protocol_type,
        "assignor": found.assignor,
        "group_epoch": found.group_epoch,
        "assignment_epoch": found.assignment_epoch,
        "lag": sum(known) if known else None,
        "member_count": len(found.members),
        "members": [_member(each) for each in found.members[:_MEMBERS_SHOWN]],
        "offset_count": len(offsets),
        "offsets": offsets[:_OFFSETS_SHOWN],
        "topics": sorted({row["topic"] for row in offsets}),
        "events": visit.host.observer.group_events.of(group_id),
        "share_partitions": await share_partitions_of(visit, group_id) if found.type == SHARE else [],
        "may_reset": not visit.is_read_only and found.state in {"Empty", "Dead"},
        "configs": await _configs(visit, group_id),
        "may_configure": not visit.is_read_only and visit.may(Operation.ALTER_CONFIGS, ResourceType.GROUP, group_id),
        "command": f"minibroker groups describe {quoted(group_id)}",
    }


async def _configs(visit: Visit, group_id: str) -> list[dict[str, Any]] | None:
    """Return the configs of a group that differ from their default; None if the visitor may not see them, or the group can have none."""
    if not group_id or not visit.may(Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, group_id):
        return None
    return await configs_of(visit, ResourceType.GROUP, group_id, only_changed=True)


async def described_group(visit: Visit, group_id: str) -> tuple[DescribedGroup, list[dict[str, Any]]]:
    """Return a group, and all of its offsets."""
    found = await _describe(visit, group_id)
    return found, await _share_offsets(visit, group_id) if found.type == SHARE else await _offsets(visit, found)


async def _describe(visit: Visit, group_id: str) -> DescribedGroup:
    """Ask for a group as each kind in turn, as clients do."""
    visit.visitor.check(Operation.DESCRIBE, ResourceType.GROUP, group_id)
    if CONSUMER_OFFSETS_TOPIC not in visit.host.cluster.topics:
        raise NotFoundError(f"there is no group {group_id!r}")
    for kind, schema in _SCHEMAS.items():
        response = await visit.ask(schema.Request(group_ids=[group_id], include_authorized_operations=False))
        answer = response.groups[0]
        if answer.error_code != GroupIdNotFound.code:
            check(answer.error_code, answer.error_message)
            return described(kind, answer, visit.services.nodes.own.node_id, lambda names: _partition_counts(visit, names))
    response = await visit.ask(k15_describe_groups.Request(groups=[group_id]))
    answer = response.groups[0]
    if answer.error_code == GroupIdNotFound.code:
        raise NotFoundError(f"there is no group {group_id!r}")
    check(answer.error_code, answer.error_message)
    return described(CLASSIC, answer, visit.services.nodes.own.node_id, lambda names: _partition_counts(visit, names))


def _partition_counts(visit: Visit, names: Any) -> dict[str, int]:
    topics = visit.host.cluster.topics
    return {name: len(topics[name].partitions) for name in names if name in topics}


def _member(member: GroupMember) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "member_id": visible(member.member_id),
        "instance_id": member.group_instance_id and visible(member.group_instance_id),
        "client_id": visible(member.client_id),
        "host": member.host,
        "protocol": member.protocol,
        "epoch": member.member_epoch,
        "topics": [visible(each) for each in member.topics],
        "topic_regex": member.topic_regex and visible(member.topic_regex),
        "assignment": [f"{topic}-{index}" for topic, index in member.assignment],
        "target": None if target is None or target == member.assignment else [f"{topic}-{index}" for topic, index in target],
    }


async def _offsets(visit: Visit, found: DescribedGroup) -> list[dict[str, Any]]:
    group = k09_offset_fetch.Group(group_id=found.group, topics=None)
    response = await visit.ask(k09_offset_fetch.Request(groups=[group]), 9)
    answer = response.groups[0]
    check(answer.error_code)
    owners = {key: member for member in found.members for key in member.assignment}
    committed = {
        (topic.name, each.partition_index): each for topic in answer.topics for each in topic.partitions if each.committed_offset >= 0
    }
    rows = []
    async for topic, index in paced(sorted({*committed, *owners})):
        each, partition = committed.get((topic, index)), _find(visit, topic, index)
        owner, offset = owners.get((topic, index)), None if each is None else each.committed_offset
        rows.append(_offset_row(topic, index, partition, offset) | {
            "owner": None if owner is None else visible(owner.member_id),
            "client_id": None if owner is None else visible(owner.client_id),
            "metadata": "" if each is None else visible(each.metadata or ""),
        })  # fmt: skip
    return rows


async def _share_offsets(visit: Visit, group_id: str) -> list[dict[str, Any]]:
    group = k90_describe_share_group_offsets.Group(group_id=group_id, topics=None)
    response = await visit.ask(k90_describe_share_group_offsets.Request(groups=[group]))
    answer = response.groups[0]
    check(answer.error_code, answer.error_message)
    return [
        _offset_row(topic.topic_name, each.partition_index, _find(visit, topic.topic_name, each.partition_index), each.start_offset)
        | {"lag": each.lag if each.lag >= 0 else None, "owner": None, "client_id": None, "metadata": ""}
        for topic in answer.topics
        for each in topic.partitions
    ]


def _offset_row(topic: str, index: int, partition: Partition | None, offset: int | None) -> dict[str, Any]:
    log = None if partition is None else partition.online_log
    return {
        "topic": topic,
        "partition": index,
        "offset": offset,
        "end": None if log is None else log.high_watermark,
        "lag": None if offset is None else lag_of(partition, offset),
        "is_at_end": offset is not None and is_at_end(partition, offset),
    }


def _find(visit: Visit, topic: str, index: int) -> Partition | None:
    found = visit.host.cluster.topics.get(topic) if visit.may_see_topic(topic) else None
    return found.partitions[index] if found is not None and index < len(found.partitions) else None


PAGES = (
    Page("/groups", "Groups", "groups.html", groups, live=("list",), interval_s=2.0),
    Page("/group", "Group", "group.html", group, live=("facts", "offsets", "members", "events", "share"), section="/groups"),
)
