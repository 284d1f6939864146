"""`minibroker groups reset-offsets`: plan new offsets, and commit them with --execute. Rejected while the group has members."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import click

from minibroker.cli.completions import group_ids, topic_names
from minibroker.cli.offsets import Scope, TopicPartitions, partitions_of
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client.client import Client
from minibroker.client.errors import refusal
from minibroker.client.group_offsets import (
    SHARE,
    SHIFT_BY,
    TO_CURRENT,
    TO_EARLIEST,
    TO_LATEST,
    TO_OFFSET,
    TO_TIMESTAMP,
    Offsets,
    PlannedOffset,
    Reset,
    alter_share_offsets,
    commit_offsets,
    committed_offsets,
    plan_resets,
    share_offsets,
)
from minibroker.client.groups import CLASSIC, EMPTY, DescribedGroup, describe_groups
from minibroker.client.offsets import duration_ms, epoch_ms
from minibroker.client.routing import TopicPartition
from minibroker.errors import GroupIdNotFound, KafkaError, NonEmptyGroup, UnknownTopicOrPartition

RESET_COLUMNS = ("group", "topic", "partition", "committed_offset", "new_offset", "log_start_offset", "log_end_offset", "reset")
INT64_MAX = 2**63 - 1

#: by group, or under None for every group
FileOffsets = dict[str | None, dict[TopicPartition, int]]


class Request(NamedTuple):
    """A request: `reset` for partitions in `scopes` (None: all with a committed offset), or the offsets of a file."""

    scopes: tuple[Scope, ...] | None
    reset: Reset | None
    offsets: FileOffsets
    execute: bool


@click.command("reset-offsets", short_help="Reset the offsets of groups.")
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=group_ids)
@click.option(
    "--group", "more_names", multiple=True, metavar="GROUP", shell_complete=group_ids, help="Another way to name a group, as in Kafka."
)
@click.option(
    "-t",
    "--topic",
    "scopes",
    multiple=True,
    type=TopicPartitions(),
    metavar="TOPIC[:PARTITIONS]",
    shell_complete=topic_names,
    help="This topic, or only partitions such as orders:0,2,5-7; may be given several times.",
)
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="To the log start.")
@click.option("--to-latest", is_flag=True, help="To the log end.")
@click.option("--to-current", is_flag=True, help="To the committed offset, or to the log end if there is none.")
@click.option("--to-offset", type=click.IntRange(0, INT64_MAX), metavar="OFFSET", help="To this offset.")
@click.option(
    "--shift-by", type=click.IntRange(-INT64_MAX, INT64_MAX), metavar="N", help="By N from the committed offset; backwards if negative."
)
@click.option(
    "--to-datetime", metavar="TIME", help="To the first record at or after a time: epoch ms or an ISO date, in UTC if it has no zone."
)
@click.option("--by-duration", metavar="DURATION", help="To the first record of the last DURATION, such as P2DT3H4M5S.")
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="To the offsets of a CSV file: topic,partition,offset, or group,topic,partition,offset.",
)
@click.option("--dry-run", is_flag=True, help="Only show the new offsets. This is the default.")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
@output_option(*FORMATS, "csv")
@client_command
def reset_offsets(
    client: Client,
    *,
    names: tuple[str, ...],
    more_names: tuple[str, ...],
    scopes: tuple[Scope, ...],
    all_topics: bool,
    from_file: str | None,
    dry_run: bool,
    execute: bool,
    output: str,
    **how: Any,
) -> None:
    """Show new offsets of groups, and commit them with --execute.

    The command rejects a group with members: stop its consumers first. It creates a group that does not exist, as a classic group.
    An offset outside the log becomes its start or end, with a warning.

    --from-file reads the output of -o csv.
    """
    groups = list(dict.fromkeys([*names, *more_names]))
    if not groups:
        raise click.UsageError("give a GROUP")
    if dry_run and execute:
        raise click.UsageError("--dry-run and --execute exclude each other")
    reset = reset_of(**how)
    if (reset is None) == (from_file is None):
        raise click.UsageError(
            "give --from-file, or one of --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, --by-duration"
        )
    if bool(scopes) + all_topics + (from_file is not None) != 1:
        raise click.UsageError("give one of --topic, --all-topics, --from-file to say which partitions")
    request = Request(None if all_topics else scopes, reset, _read_file(from_file, groups) if from_file else {}, execute)
    items: list[dict[str, Any]] = []
    errors: list[Exception] = []
    described = describe_groups(client, groups)
    committed = offsets_by_type(client, {group: type_of(each) for group, each in described.items()})
    for group in groups:
        try:
            items += _reset_group(client, group, described[group], committed[group], request=request, errors=errors)
        except KafkaError as error:
            errors.append(error)
    _show(items, output, with_group=len(groups) > 1, must=not errors)
    if items and not execute and not dry_run:
        click.echo("Nothing was changed: --execute commits these offsets.", err=True)
    fail_with(errors)


def type_of(described: DescribedGroup | KafkaError) -> str:
    """Return the type of a group. One that does not exist is created as a classic group."""
    return described.type if isinstance(described, DescribedGroup) else CLASSIC


def offsets_by_type(client: Client, types: Mapping[str, str]) -> dict[str, Offsets | KafkaError]:
    """Return the committed offsets of groups, or the start offsets of share groups."""
    shared = [group for group, group_type in types.items() if group_type == SHARE]
    others = [group for group in types if group not in shared]
    return (committed_offsets(client, others) if others else {}) | (share_offsets(client, shared) if shared else {})


def reset_of(
    *,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_offset: int | None,
    shift_by: int | None,
    to_datetime: str | None,
    by_duration: str | None,
) -> Reset | None:
    """Return the reset that was given, or None."""
    found = []
    for is_set, strategy in ((to_earliest, TO_EARLIEST), (to_latest, TO_LATEST), (to_current, TO_CURRENT)):
        if is_set:
            found.append(Reset(strategy))
    if to_offset is not None:
        found.append(Reset(TO_OFFSET, to_offset))
    if shift_by is not None:
        found.append(Reset(SHIFT_BY, shift_by))
    try:
        if to_datetime is not None:
            found.append(Reset(TO_TIMESTAMP, epoch_ms(to_datetime)))
        if by_duration is not None:
            found.append(Reset(TO_TIMESTAMP, time.time_ns() // 1_000_000 - duration_ms(by_duration)))
    except ValueError as error:
        option = "--to-datetime" if by_duration is None else "--by-duration"
        raise click.BadParameter(str(error), param_hint=option) from error
    if len(found) > 1:
        raise click.UsageError(f"--{found[0].strategy} and --{found[1].strategy} exclude each other")
    return found[0] if found else None


def _read_file(path: str, groups: list[str]) -> FileOffsets:
    with click.open_file(path, encoding="utf-8", errors="replace") as lines:
        try:
            return read_offsets(lines, groups)
        except csv.Error as error:
            raise click.BadParameter(f"{path} is not CSV: {error}", param_hint="--from-file") from error


def read_offsets(lines: Iterable[str], groups: list[str]) -> FileOffsets:
    """Parse offsets in CSV, as -o csv and Kafka's --export write them; BadParameter for an invalid line."""
    found: FileOffsets = {}
    for number, row in enumerate(csv.reader(lines), 1):
        if not row:
            continue
        group = row[0] if len(row) == 4 else None
        try:
            topic, partition, offset = row[-3:]
            key, value = (topic, int(partition)), int(offset)
        except ValueError:
            key, value = ("", -1), -1
        if len(row) not in (3, 4) or not key[0] or not 0 <= key[1] < 2**31 or not 0 <= value <= INT64_MAX:
            raise click.BadParameter(
                f"line {number} is not topic,partition,offset or group,topic,partition,offset", param_hint="--from-file"
            )
        if key in found.setdefault(group, {}):
            raise click.BadParameter(f"line {number} is the second line for {topic}-{partition}", param_hint="--from-file")
        found[group][key] = value
    if None in found and len(found) + len(groups) > 2:
        raise click.BadParameter("with several groups, each line must start with its group", param_hint="--from-file")
    return found


def _reset_group(
    client: Client,
    group: str,
    described: DescribedGroup | KafkaError,
    committed: Offsets | KafkaError,
    *,
    request: Request,
    errors: list[Exception],
) -> list[dict[str, Any]]:
    """Plan, and commit if requested. Returns a row for each planned partition, and adds errors of others to `errors`."""
    if isinstance(committed, KafkaError):
        raise committed
    if isinstance(described, DescribedGroup) and described.state != EMPTY:
        words = "stop its consumers first; static members leave with their session time-out"
        raise NonEmptyGroup(f"group {group} is {described.state}, members: {len(described.members)}: {words}")
    if isinstance(described, KafkaError) and not isinstance(described, GroupIdNotFound):
        raise described
    planned: dict[TopicPartition, PlannedOffset] = {}
    for key, answer in plan_resets(client, _resets(client, group, committed, request, errors), committed, group=group).items():
        if isinstance(answer, KafkaError):
            errors.append(answer)
            continue
        planned[key] = answer
        if answer.requested_offset != answer.new_offset:
            bound = "after the log end" if answer.requested_offset > answer.new_offset else "before the log start"
            warning = f"offset {answer.requested_offset} of {key[0]}-{key[1]} is {bound}: {answer.new_offset} instead"
            click.echo(f"Warning: group {group}: {warning}", err=True)
    results: dict[TopicPartition, KafkaError | None] = {}
    if request.execute and planned:
        commit = alter_share_offsets if type_of(described) == SHARE else commit_offsets
        results = commit(client, group, {key: each.new_offset for key, each in planned.items()})
        errors += [error for error in results.values() if error is not None]
    return [_row(group, key, each, done=key in results) for key, each in planned.items() if results.get(key) is None]


def _resets(client: Client, group: str, committed: Offsets, request: Request, errors: list[Exception]) -> dict[TopicPartition, Reset]:
    """Return the reset of each partition."""
    if request.reset is None:
        offsets = request.offsets.get(group) or request.offsets.get(None)
        if not offsets:
            raise UnknownTopicOrPartition(f"group {group}: the file has no line for it")
        return {key: Reset(TO_OFFSET, offset) for key, offset in offsets.items()}
    if request.scopes is None:
        if not committed:
            raise UnknownTopicOrPartition(f"group {group} has no committed offsets; give --topic")
        return dict.fromkeys(committed, request.reset)
    existing: list[TopicPartition] = []
    unknown = set()
    for topic in client.metadata(sorted({topic for topic, _ in request.scopes})).topics:
        name = topic.name or ""
        error = refusal(topic.error_code, f"topic {name}")
        if error is not None:
            errors.append(error)
            unknown.add(name)
        existing += [(name, partition.partition_index) for partition in topic.partitions]
    return dict.fromkeys((key for key in partitions_of(request.scopes, existing) if key[0] not in unknown), request.reset)


def _row(group: str, key: TopicPartition, planned: PlannedOffset, *, done: bool) -> dict[str, Any]:
    return {
        "group": group,
        "topic": key[0],
        "partition": key[1],
        "committed_offset": planned.committed_offset,
        "new_offset": planned.new_offset,
        "log_start_offset": planned.log_start_offset,
        "log_end_offset": planned.log_end_offset,
        "reset": done,
    }


def _show(items: list[dict[str, Any]], output: str, *, with_group: bool, must: bool) -> None:
    if output == "csv":
        text = io.StringIO()
        fields = ("topic", "partition", "new_offset")
        csv.writer(text, lineterminator="\n").writerows(
            [item[field] for field in (("group", *fields) if with_group else fields)] for item in items
        )
        click.echo(text.getvalue(), nl=False)
        return
    if output == "name":
        items = [{"name": f"{item['topic']}:{item['partition']}"} for item in items]
    if items or must or output == "json":
        emit(items, output, columns=RESET_COLUMNS)
