"""`minibroker groups`: the equivalent of Kafka's ConsumerGroupCommand. reset_offsets.py has the resets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from minibroker.cli.completions import group_ids, topic_names
from minibroker.cli.offsets import TopicPartitions, partitions_of
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.cli.reset_offsets import offsets_by_type, reset_offsets, type_of
from minibroker.client import groups as admin
from minibroker.client.client import Client
from minibroker.client.group_offsets import SHARE, CommittedOffset, Offsets, Results, delete_offsets, delete_share_offsets
from minibroker.client.groups import DescribedGroup, GroupMember, describe_groups
from minibroker.client.offsets import LATEST, list_offsets
from minibroker.client.routing import TopicPartition
from minibroker.errors import GroupIdNotFound, KafkaError, UnknownTopicOrPartition

NO_GROUPS = "No groups. A group exists while it has members or committed offsets."
LIST_COLUMNS = ("group", "type", "protocol_type", "state", "coordinator")
DELETED_COLUMNS = ("group", "topic", "partition", "committed_offset", "deleted")
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


@click.group(
    epilog="""\b
Examples:
  minibroker groups list --state Stable
  minibroker groups describe billing
  minibroker groups describe billing --members
  minibroker groups reset-offsets billing --topic orders --to-earliest
  minibroker groups reset-offsets billing --topic orders --to-earliest --execute
  minibroker groups delete-offsets billing --topic payments:0,1
  minibroker groups delete billing
"""
)
def groups() -> None:
    """Show groups and their lag, reset their offsets, delete them.

    Works with classic groups, consumer groups, share groups and streams groups.
    """


groups.add_command(reset_offsets)


@groups.command("list")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(admin.STATES, case_sensitive=False),
    help="Only groups in this state; may be given several times.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(admin.TYPES, case_sensitive=False),
    help="Only groups of this type; may be given several times.",
)
@output_option(*FORMATS)
@client_command
def list_groups(client: Client, *, states: tuple[str, ...], types: tuple[str, ...], output: str) -> None:
    """List groups of all types with their states."""
    found = admin.list_groups(client, states=states, types=types)
    items = [{field: getattr(each, field) for field in LIST_COLUMNS} for each in found]
    emit(items, output, columns=LIST_COLUMNS, name="group", empty=NO_GROUPS)


@groups.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=group_ids)
@click.option(
    "--group", "more_names", multiple=True, metavar="GROUP", shell_complete=group_ids, help="Another way to name a group, as in Kafka."
)
@click.option("--offsets", "views", flag_value="offsets", multiple=True, help="Offsets and lag of each partition. This is the default.")
@click.option("--members", "views", flag_value="members", multiple=True, help="Members, their subscriptions and assignments.")
@click.option("--state", "views", flag_value="state", multiple=True, help="The state of each group as a whole.")
@output_option(*FORMATS)
@client_command
def describe(client: Client, *, names: tuple[str, ...], more_names: tuple[str, ...], views: tuple[str, ...], output: str) -> None:
    """Show the offsets and members of groups.

    Without a GROUP, shows all groups. LAG is the distance from the committed offset to the end that consumers with
    read_uncommitted see. OWNER is the member that reads the partition now.

    For a share group, COMMITTED OFFSET is its start offset, and LAG the number of records after it that are still to be delivered. Its
    partitions have no single OWNER: --members shows who reads them.
    """
    view, *others = dict.fromkeys(views or ["offsets"])
    if others:
        raise click.UsageError(f"--{view} and --{others[0]} exclude each other")
    described, errors = _described(client, [*names, *more_names])
    items: list[dict[str, Any]] = []
    columns, name = OFFSET_COLUMNS, "name"
    if view == "state":
        items, columns, name = [state_row(group) for group in described], STATE_COLUMNS, "group"
    elif view == "members":
        items = [member_row(group, member, as_text=output == "table") for group in described for member in group.members]
        columns, name = MEMBER_COLUMNS, "member_id"
    else:
        items = _offset_items(client, described, errors)
        if output == "name":
            items = [{"name": f"{item['topic']}:{item['partition']}"} for item in items if item["topic"] is not None]
    if items or output == "json" or not errors:
        empty = NO_GROUPS if not described else f"No {view if view == 'members' else 'committed offsets'}."
        emit(items, output, columns=columns, name=name, empty=empty)
    fail_with(errors)


@groups.command(short_help="Delete groups without members, and their offsets.")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_ids)
@click.option("--if-exists", is_flag=True, help="Do not fail if a group does not exist.")
@output_option(*FORMATS)
@client_command
def delete(client: Client, *, names: tuple[str, ...], if_exists: bool, output: str) -> None:
    """Delete groups without members, and all their offsets, immediately and permanently."""
    results = dict(sorted(admin.delete_groups(client, names).items()))
    missing = {name for name, error in results.items() if if_exists and isinstance(error, GroupIdNotFound)}
    errors: list[Exception] = [error for name, error in results.items() if error is not None and name not in missing]
    items = [{"group": name, "deleted": error is None} for name, error in results.items() if error is None or name in missing]
    if items or output == "json":
        emit(items, output, columns=("group", "deleted"), name="group")
    fail_with(errors)


@groups.command("delete-offsets", short_help="Delete committed offsets of a group.")
@click.argument("group", metavar="GROUP", shell_complete=group_ids)
@click.option(
    "-t",
    "--topic",
    "scopes",
    required=True,
    multiple=True,
    type=TopicPartitions(),
    metavar="TOPIC[:PARTITIONS]",
    shell_complete=topic_names,
    help="Only this topic, or only partitions such as orders:0,2,5-7; may be given several times.",
)
@output_option(*FORMATS)
@client_command
def delete_committed(client: Client, *, group: str, scopes: tuple[tuple[str, frozenset[int] | None], ...], output: str) -> None:
    """Delete a group's committed offsets of topics that it no longer reads, immediately and permanently.

    The group may have members. The broker rejects topics to which one of them subscribes. A share group must have no members, and only the
    offsets of whole topics can be deleted.
    """
    (described,) = describe_groups(client, [group]).values()
    if isinstance(described, GroupIdNotFound):
        raise described
    group_type = type_of(described)
    (committed,) = offsets_by_type(client, {group: group_type}).values()
    if isinstance(committed, KafkaError):
        raise committed
    if group_type == SHARE and any(partitions is not None for _, partitions in scopes):
        raise click.UsageError(f"{group} is a share group, which deletes offsets of whole topics only: give --topic without partitions")
    chosen = sorted(partitions_of(scopes, committed))
    errors: list[Exception] = [
        UnknownTopicOrPartition(f"group {group} committed nothing of topic {topic}")
        for topic in dict.fromkeys(topic for topic, _ in scopes)
        if topic not in {each for each, _ in chosen}
    ]
    results = _delete(client, group, group_type, chosen) if chosen else {}
    items = []
    for (topic, partition), error in sorted(results.items()):
        if error is not None:
            errors.append(error)
            continue
        deleted = committed.get((topic, partition))
        offset = deleted.offset if isinstance(deleted, CommittedOffset) else None
        items.append({"group": group, "topic": topic, "partition": partition, "committed_offset": offset, "deleted": deleted is not None})
    if output == "name":
        items = [{"name": f"{item['topic']}:{item['partition']}"} for item in items if item["deleted"]]
    if items or output == "json":
        emit(items, output, columns=DELETED_COLUMNS)
    fail_with(errors)


def _delete(client: Client, group: str, group_type: str, chosen: list[TopicPartition]) -> Results:
    if group_type != SHARE:
        return delete_offsets(client, group, chosen)
    topics = delete_share_offsets(client, group, dict.fromkeys(topic for topic, _ in chosen))
    return {key: topics.get(key[0]) for key in chosen}


def _described(client: Client, names: list[str]) -> tuple[list[DescribedGroup], list[Exception]]:
    all_groups = not names
    if all_groups:
        names = [each.group for each in admin.list_groups(client)]
    answers = describe_groups(client, names)
    found = [answer for _, answer in sorted(answers.items()) if isinstance(answer, DescribedGroup)]
    errors: list[Exception] = [
        answer
        for answer in answers.values()
        if isinstance(answer, KafkaError) and not (all_groups and isinstance(answer, GroupIdNotFound))  # deleted meanwhile
    ]
    return found, errors


def _offset_items(client: Client, described: Iterable[DescribedGroup], errors: list[Exception]) -> list[dict[str, Any]]:
    """Return the rows of all groups, and add errors to `errors`. Cells that could not be read stay empty."""
    committed: dict[str, Offsets] = {}
    for name, answer in offsets_by_type(client, {group.group: group.type for group in described}).items():
        if isinstance(answer, KafkaError):
            errors.append(answer)
        else:
            committed[name] = answer
    shown = [group for group in described if group.group in committed]
    keys = {key for offsets in committed.values() for key in offsets}
    keys |= {key for group in shown for member in group.members for key in member.assignment}
    ends: dict[TopicPartition, int] = {}
    for key, found in sorted(list_offsets(client, dict.fromkeys(sorted(keys), LATEST)).items()):
        if not isinstance(found, KafkaError):
            ends[key] = found.offset
        elif not isinstance(found, UnknownTopicOrPartition):  # offsets of a deleted topic are shown without a log end
            errors.append(found)
    for offsets in committed.values():
        errors += [answer for answer in offsets.values() if isinstance(answer, KafkaError)]
    return [row for group in shown for row in offset_rows(group, committed[group.group], ends)]


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
