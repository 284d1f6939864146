"""kafka-consumer-groups: list and describe groups, reset and delete their offsets, delete them. As in Kafka, failures exit with 0."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from minibroker.cli.groups import offset_rows
from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, java_name, parser, the_one, words_of
from minibroker.cli.offsets import Partitions
from minibroker.cli.reset_offsets import offsets_by_type, read_offsets, reset_of
from minibroker.client import groups as admin
from minibroker.client.client import Client
from minibroker.client.group_offsets import TO_OFFSET, Offsets, Reset, commit_offsets, committed_offsets, delete_offsets, plan_resets
from minibroker.client.groups import DescribedGroup, describe_groups
from minibroker.client.offsets import LATEST, list_offsets
from minibroker.client.routing import TopicPartition
from minibroker.errors import GroupIdNotFound, KafkaError, NonEmptyGroup

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
RESETS = ("to-earliest", "to-latest", "to-current")
OFFSETS = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("CURRENT-OFFSET", 15),
    ("LOG-END-OFFSET", 15),
    ("LAG", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 0),
)
MEMBERS = (("GROUP", 15), ("CONSUMER-ID", 15), ("HOST", 15), ("CLIENT-ID", 15), ("#PARTITIONS", 15), ("", 0))
STATES = (("GROUP", 15), ("COORDINATOR (ID)", 25), ("ASSIGNMENT-STRATEGY", 20), ("STATE", 20), ("#MEMBERS", 0))
RESET = (("GROUP", 15), ("TOPIC", 15), ("PARTITION", 10), ("NEW-OFFSET", 0))


def run(arguments: Sequence[str]) -> int:
    """Run the tool, with the output of Kafka's ConsumerGroupCommand."""
    options = _parser().parse_args(arguments)
    words = "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets"
    action = the_one(options, ACTIONS, words)
    if action != "list" and not options.group and not options.all_groups:
        raise UsageError(f"Option {action} takes one of these options: all-groups, group")
    commands = {"list": _list, "describe": _describe, "delete": _delete, "reset-offsets": _reset, "delete-offsets": _delete_offsets}
    with client_of(options, options.timeout) as client:
        try:
            commands[action](client, options)
        except KafkaError as error:
            print(f"\nError: Executing consumer group command failed due to {java_name(error)}: {words_of(error)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    tool_parser = parser(
        "kafka-consumer-groups", "This tool helps to list all consumer groups, describe or delete them, or reset their offsets."
    )
    add_bootstrap(tool_parser)
    for action in (*ACTIONS, "all-groups", "all-topics", "members", "offsets", "dry-run", "execute", "export", *RESETS):
        tool_parser.add_argument(f"--{action}", action="store_true")
    tool_parser.add_argument("--group", action="append", default=[])
    tool_parser.add_argument("--topic", action="append", default=[], metavar="TOPIC[:PARTITIONS]")
    tool_parser.add_argument(
        "--state", nargs="?", const="", help="With --list: only groups in these states; with --describe: of the group as a whole."
    )
    tool_parser.add_argument("--type", nargs="?", const="")
    tool_parser.add_argument("--timeout", type=int, default=30_000, help="Milliseconds.")
    tool_parser.add_argument("--to-offset", type=int)
    tool_parser.add_argument("--shift-by", type=int)
    tool_parser.add_argument("--to-datetime")
    tool_parser.add_argument("--by-duration")
    tool_parser.add_argument("--from-file")
    return tool_parser


def _show(columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[object]]) -> None:
    """Print rows with headers, in columns of Kafka's widths."""
    cells = [[name for name, _ in columns], *([("-" if cell is None else str(cell)) for cell in row] for row in rows)]
    widths = [max(least, *(len(row[index]) for row in cells)) if least else 0 for index, (_, least) in enumerate(columns)]
    print()
    for row in cells:
        print(" ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)))


def _list(client: Client, options: argparse.Namespace) -> None:
    states = [state.strip() for state in (options.state or "").split(",") if state.strip()]
    types = [each.strip().lower() for each in (options.type or "").split(",") if each.strip()]
    found = admin.list_groups(client, states=states, types=types)
    found = [group for group in found if group.protocol_type in {"", "consumer"} or group.type == admin.CONSUMER]
    if options.state is None and options.type is None:
        for group in found:
            print(group.group)
        return
    fields = (["type"] if options.type is not None else []) + (["state"] if options.state is not None else [])
    print(" ".join([f"{'GROUP':<32}", *(f"{field.upper():<20}" for field in fields)]))
    for group in found:
        print(
            " ".join(
                [
                    f"{group.group:<32}",
                    *(f"{getattr(group, field).title() if field == 'type' else getattr(group, field):<20}" for field in fields),
                ]
            )
        )


def _groups(client: Client, options: argparse.Namespace) -> list[str]:
    return [each.group for each in admin.list_groups(client)] if options.all_groups else list(dict.fromkeys(options.group))


def _describe(client: Client, options: argparse.Namespace) -> None:
    for group in describe_groups(client, _groups(client, options)).values():
        if isinstance(group, KafkaError):
            raise group
        if options.state is not None:
            address = client.brokers.get(group.coordinator)
            _show(STATES, [(group.group, f"{address}  ({group.coordinator})", group.assignor, group.state, len(group.members))])
        elif options.members:
            _show(MEMBERS, [(group.group, m.member_id, f"/{m.host}", m.client_id, len(m.assignment), "") for m in group.members])
        else:
            _describe_offsets(client, group)
        if not group.members:
            print(f"\nConsumer group '{group.group}' has no active members.", file=sys.stderr)


def _describe_offsets(client: Client, group: DescribedGroup) -> None:
    (committed,) = offsets_by_type(client, {group.group: group.type}).values()
    if isinstance(committed, KafkaError):
        raise committed
    keys = sorted({*committed, *(key for member in group.members for key in member.assignment)})
    ends = {key: end.offset for key, end in list_offsets(client, dict.fromkeys(keys, LATEST)).items() if not isinstance(end, KafkaError)}
    fields = ("group", "topic", "partition", "committed_offset", "log_end_offset", "lag", "owner", "host", "client_id")
    rows = [{**row, "host": f"/{row['host']}" if row["host"] else None} for row in offset_rows(group, committed, ends)]
    if rows:
        _show(OFFSETS, [[row[field] for field in fields] for row in rows])


def _delete(client: Client, options: argparse.Namespace) -> None:
    results = admin.delete_groups(client, _groups(client, options))
    failed = {group: error for group, error in results.items() if error is not None}
    done = ", ".join(f"'{group}'" for group in results if group not in failed)
    if failed:
        print("\nError: Deletion of some consumer groups failed:")
        for group, error in failed.items():
            print(f"* Group '{group}' could not be deleted due to: {java_name(error)}: {words_of(error)}")
        if done:
            print(f"\nThese consumer groups were deleted successfully: {done}")
    else:
        print(f"Deletion of requested consumer groups ({done}) was successful.")


def _partitions(client: Client, options: argparse.Namespace, committed: Offsets) -> list[TopicPartition]:
    """Return the partitions of --topic, or with --all-topics all committed ones."""
    if options.all_topics:
        return sorted(committed)
    if not options.topic:
        raise UsageError("Option takes one of these options: all-topics, topic")
    found = []
    for text in options.topic:
        name, _, numbers = text.partition(":")
        numbered = Partitions().convert(numbers, None, None) if numbers else None
        existing = [partition.partition_index for partition in client.topic(name).partitions]
        found += [(name, index) for index in sorted(existing) if numbered is None or index in numbered]
    return found


def _reset(client: Client, options: argparse.Namespace) -> None:
    groups = _groups(client, options)
    described = describe_groups(client, groups)
    offsets = committed_offsets(client, groups)
    for group in groups:
        state, committed = described[group], offsets[group]
        if isinstance(committed, KafkaError):
            raise committed
        if isinstance(state, KafkaError) and not isinstance(state, GroupIdNotFound):
            raise state
        if isinstance(state, DescribedGroup) and state.members:
            raise NonEmptyGroup(
                f"group {group}: Assignments can only be reset if the group '{group}' is inactive, but the current state is {state.state}."
            )
        new = _planned(client, group, _resets(client, group, options, committed), committed)
        if options.execute and new:
            for error in commit_offsets(client, group, new).values():
                if error is not None:
                    raise error
        if options.export:
            for (topic, partition), offset in new.items():
                print(",".join([*([group] if len(groups) > 1 else []), topic, str(partition), str(offset)]))
            print()
        else:
            _show(RESET, [(group, topic, partition, offset) for (topic, partition), offset in new.items()])
    if not options.execute and not options.dry_run:
        print("WARN: No action will be performed as the --execute option is missing.", file=sys.stderr)


def _resets(client: Client, group: str, options: argparse.Namespace, committed: Offsets) -> dict[TopicPartition, Reset]:
    if options.from_file:
        lines = Path(options.from_file).read_text(encoding="utf-8").splitlines()
        offsets_by_group = read_offsets(lines, [group])
        offsets = offsets_by_group.get(group) or offsets_by_group.get(None) or {}
        return {key: Reset(TO_OFFSET, offset) for key, offset in offsets.items()}
    reset = reset_of(
        to_earliest=options.to_earliest,
        to_latest=options.to_latest,
        to_current=options.to_current,
        to_offset=options.to_offset,
        shift_by=options.shift_by,
        to_datetime=options.to_datetime,
        by_duration=options.by_duration,
    )
    if reset is None:
        raise UsageError(
            "Option reset-offsets requires one of: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, --to-datetime, "
            "--by-duration, --from-file"
        )
    return dict.fromkeys(_partitions(client, options, committed), reset)


def _planned(client: Client, group: str, resets: Mapping[TopicPartition, Reset], committed: Offsets) -> dict[TopicPartition, int]:
    found = {}
    for key, planned in plan_resets(client, resets, committed, group=group).items():
        if isinstance(planned, KafkaError):
            raise planned
        found[key] = planned.new_offset
    return found


def _delete_offsets(client: Client, options: argparse.Namespace) -> None:
    (group,) = options.group[:1] or [""]
    (committed,) = committed_offsets(client, [group]).values()
    if isinstance(committed, KafkaError):
        raise committed
    results = delete_offsets(client, group, _partitions(client, options, committed))
    failed = [error for error in results.values() if error is not None]
    print(f"Request {'failed' if failed else 'succeeded'} for deleting offsets from group {group}.")
    rows = [(topic, index, f"Error: {words_of(error)}" if error else "Successful") for (topic, index), error in sorted(results.items())]
    _show((("TOPIC", 15), ("PARTITION", 10), ("STATUS", 15)), rows)
