"""Rows of groups: their offsets, members and states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minibroker.client.group_offsets import SHARE, CommittedOffset, Offsets
from minibroker.client.groups import DescribedGroup, GroupMember
from minibroker.client.routing import TopicPartition

OFFSET_COLUMNS = ("group", "topic", "partition", "committed_offset", "log_end_offset", "lag", "owner", "client_id", "host")
MEMBER_COLUMNS = ("group", "member_id", "group_instance_id", "client_id", "host", "protocol", "member_epoch", "topics", "assignment")
STATE_COLUMNS = (
    "group",
    "type",
    "state",
    "members",
    "coordinator",
    "protocol_type",
    "assignor",
    "group_epoch",
    "assignment_epoch",
)


def offset_rows(group: DescribedGroup, committed: Offsets, ends: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    """Return a row for each partition with an offset or an owner, then one for each member without partitions.

    A partition of a share group may have several owners, which only `--members` shows.
    """
    owners = {} if group.type == SHARE else {key: member for member in group.members for key in member.assignment}
    rows = []
    for key in sorted({*committed, *(key for member in group.members for key in member.assignment)}):
        answer = committed.get(key)
        rows.append(_offset_row(group, key, answer if isinstance(answer, CommittedOffset) else None, ends.get(key), owners.get(key)))
    rows += [_offset_row(group, (None, None), None, None, member) for member in group.members if not member.assignment]
    return rows


def _offset_row(
    group: DescribedGroup,
    key: tuple[str | None, int | None],
    committed: CommittedOffset | None,
    end: int | None,
    owner: GroupMember | None,
) -> dict[str, Any]:
    return {
        "group": group.group,
        "topic": key[0],
        "partition": key[1],
        "committed_offset": committed.offset if committed else None,
        "log_end_offset": end,
        "lag": _lag(committed, end),
        "owner": owner.member_id if owner else None,
        "client_id": owner.client_id if owner else None,
        "host": owner.host if owner else None,
        "group_instance_id": owner.group_instance_id if owner else None,
        "leader_epoch": committed.leader_epoch if committed else None,
        "metadata": committed.metadata if committed else None,
    }


def _lag(committed: CommittedOffset | None, end: int | None) -> int | None:
    if committed is None or committed.lag is not None:
        return None if committed is None else committed.lag
    return None if end is None else end - committed.offset


def member_row(group: DescribedGroup, member: GroupMember, *, as_text: bool) -> dict[str, Any]:
    """Return the row of a member; `as_text` for a table, with partitions as `orders-0`."""
    return {
        "group": group.group,
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "protocol": member.protocol,
        "member_epoch": member.member_epoch,
        "topics": _topics(member) if as_text else list(member.topics),
        "topic_regex": member.topic_regex,
        "assignment": _partitions(member.assignment, as_text=as_text),
        "target_assignment": _partitions(member.target_assignment, as_text=as_text),
    }


def state_row(group: DescribedGroup) -> dict[str, Any]:
    """Return the row of a group."""
    return {
        "group": group.group,
        "type": group.type,
        "state": group.state,
        "members": len(group.members),
        "coordinator": group.coordinator,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
    }


def _topics(member: GroupMember) -> list[str] | None:
    """Return topics for a table; a regular expression is between slashes."""
    return [*member.topics, *([f"/{member.topic_regex}/"] if member.topic_regex else [])] or None


def _partitions(partitions: tuple[TopicPartition, ...] | None, *, as_text: bool) -> list[Any] | None:
    if as_text:
        return [f"{topic}-{partition}" for topic, partition in partitions or ()] or None
    return None if partitions is None else [{"topic": topic, "partition": partition} for topic, partition in partitions]
