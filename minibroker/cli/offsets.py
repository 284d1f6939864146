"""`minibroker offsets`: the equivalent of Kafka's GetOffsetShell."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import emit
from minibroker.client.client import Client
from minibroker.client.errors import refusal
from minibroker.client.offsets import ISOLATION_LEVELS, LATEST, TIMES, Bounds, bounds, epoch_ms, list_offsets
from minibroker.client.routing import ELECTION_MS, TopicPartition
from minibroker.errors import KafkaError, UnknownTopicOrPartition

BOUND_COLUMNS = ("topic", "partition", *Bounds._fields)


class Time(click.ParamType[int]):
    """The values of --time in GetOffsetShell, and dates."""

    name = "time"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return a special time or epoch ms."""
        if isinstance(value, int):
            return value
        if value in TIMES:
            return TIMES[value]
        if value in {str(number) for number in TIMES.values()}:
            return int(value)
        try:
            return epoch_ms(value)
        except ValueError:
            self.fail(
                f"{value!r} is not {', '.join(TIMES)}, -1 to -6, milliseconds since 1970 or a date like 2013-01-31T10:00Z", param, ctx
            )


class Partitions(click.ParamType[frozenset[int]]):
    """`0,2,5-7`: numbers and ranges."""

    name = "partitions"

    def convert(self, value: str | frozenset[int], param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """Return the numbers."""
        if isinstance(value, frozenset):
            return value
        found: set[int] = set()
        for part in value.split(","):
            match = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", part)
            if match is None or int(match[2] or match[1]) - int(match[1]) > 100_000:
                self.fail(f"{value!r} is not a list of partitions like 0,2,5-7", param, ctx)
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
        return frozenset(found)


@click.command(
    epilog="""\b
Examples:
  minibroker offsets --topic orders
  minibroker offsets --topic orders --time earliest --partitions 0,2-3 -o shell
  minibroker offsets --all --topic orders
  minibroker offsets --topic-pattern 'flights.*' --time 2013-06-01T00:00:00Z -o jsonl
"""
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topic_names,
    help="A topic; may be given several times.  [default: all topics]",
)
@click.option("--topic-pattern", metavar="REGEX", help="Only topics whose whole name matches.")
@click.option("-p", "--partitions", type=Partitions(), metavar="LIST", help="Only these partitions, such as 0,2,5-7.")
@click.option(
    "--time",
    type=Time(),
    default="latest",
    show_default=True,
    metavar="TIME",
    help="earliest (-2), latest (-1), max-timestamp (-3), earliest-local (-4), latest-tiered (-5), earliest-pending-upload (-6), "
    "or the first record at or after a time: epoch ms or an ISO date, in UTC if it has no zone.",
)
@click.option(
    "--isolation",
    "--isolation-level",
    "isolation",
    type=click.Choice(list(ISOLATION_LEVELS)),
    default="read_uncommitted",
    show_default=True,
    help="latest is the high watermark, or with read_committed the last stable offset.",
)
@click.option(
    "--all", "all_bounds", is_flag=True, help="Show log start, last stable offset, high watermark and log end instead of one offset."
)
@click.option("--internal", is_flag=True, help="Without --topic: include Kafka's internal topics.")
@output_option("table", "shell", "json", "jsonl", "yaml", "name")
@client_command
def offsets(
    client: Client,
    *,
    topics: tuple[str, ...],
    topic_pattern: str | None,
    partitions: frozenset[int] | None,
    time: int,
    isolation: str,
    all_bounds: bool,
    internal: bool,
    output: str,
) -> None:
    """Show an offset of each partition: earliest, latest, or by time.

    --all shows all bounds. If the last stable offset is below the high watermark, a transaction is open, and consumers with
    read_committed wait for its end.

    -o shell prints exactly what GetOffsetShell prints, topic:partition:offset, and skips partitions without such an offset.
    """
    if all_bounds and (output == "shell" or time != LATEST or isolation != "read_uncommitted"):
        raise click.UsageError("--all cannot be combined with --time, --isolation or -o shell")
    partitions_to_show, errors = _partitions(client, topics, topic_pattern, partitions, internal=internal)
    if all_bounds:
        _show_bounds(client, partitions_to_show, errors, output)
        return
    found = list_offsets(client, dict.fromkeys(partitions_to_show, time), isolation=ISOLATION_LEVELS[isolation], leader_wait_ms=ELECTION_MS)
    items = []
    for (topic, partition), answer in sorted(found.items()):
        if isinstance(answer, KafkaError):
            errors.append(answer)
            continue
        offset = None if answer.offset < 0 else answer.offset
        timestamp = None if answer.timestamp < 0 else answer.timestamp
        items.append(
            {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp, "leader_epoch": answer.leader_epoch}
        )
    if output == "shell":
        for item in items:
            if item["offset"] is not None:
                click.echo(f"{item['topic']}:{item['partition']}:{item['offset']}")
    elif output == "name":
        emit([{"name": f"{item['topic']}:{item['partition']}"} for item in items], output, columns=())
    else:
        columns = (
            ("topic", "partition", "offset", "timestamp")
            if time >= 0 or time == TIMES["max-timestamp"]
            else ("topic", "partition", "offset")
        )
        if items or output == "json" or not errors:
            emit(items, output, columns=columns, empty="No topics.")
    fail_with(errors)


def _show_bounds(client: Client, partitions_to_show: list[TopicPartition], errors: list[Exception], output: str) -> None:
    items = []
    for (topic, partition), answer in sorted(bounds(client, partitions_to_show, leader_wait_ms=ELECTION_MS).items()):
        if isinstance(answer, KafkaError):
            errors.append(answer)
        else:
            items.append({"name": f"{topic}:{partition}", "topic": topic, "partition": partition, **answer._asdict()})
    if output != "name":
        items = [{field: item[field] for field in BOUND_COLUMNS} for item in items]
    if items or output == "json" or not errors:
        emit(items, output, columns=BOUND_COLUMNS, empty="No topics.")
    fail_with(errors)


def _partitions(
    client: Client, names: tuple[str, ...], pattern: str | None, only: frozenset[int] | None, *, internal: bool
) -> tuple[list[TopicPartition], list[Exception]]:
    """Return the requested partitions, and an error for each topic or partition that does not exist."""
    try:
        matches = re.compile(pattern) if pattern else None
    except re.error as wrong:
        raise click.BadParameter(f"{pattern!r} is not a regular expression: {wrong}", param_hint="--topic-pattern") from wrong
    requested = None if matches or not names else list(dict.fromkeys(names))
    keys: list[TopicPartition] = []
    errors: list[Exception] = []
    seen: set[str] = set()
    for topic in client.metadata(requested).topics:
        name = topic.name or ""
        chosen = (
            name in names
            or bool(matches and matches.fullmatch(name))
            or (not names and not matches and (internal or not topic.is_internal))
        )
        if not chosen:
            continue
        seen.add(name)
        error = refusal(topic.error_code, f"topic {name}")
        if error is not None:
            errors.append(error)
            continue
        existing = {partition.partition_index for partition in topic.partitions}
        if name in names and only is not None:
            errors += [
                UnknownTopicOrPartition(f"topic {name} has no partition {index} (it has {len(existing)})")
                for index in sorted(only - existing)
            ]
        keys += [(name, index) for index in sorted(existing if only is None else existing & only)]
    errors += [UnknownTopicOrPartition(f"topic {name} does not exist") for name in names if name not in seen]
    if not keys and not errors and (names or matches):
        errors.append(UnknownTopicOrPartition("no topic and partition matches"))
    return keys, errors


Scope = tuple[str, frozenset[int] | None]


class TopicPartitions(click.ParamType[Scope]):
    """A topic's name and its partitions (`orders:0,2,5-7`, as in Kafka's tools); None for all partitions."""

    name = "topic"

    def convert(self, value: str | Scope, param: click.Parameter | None, ctx: click.Context | None) -> Scope:
        """Return the name and the partitions."""
        if isinstance(value, tuple):
            return value
        topic, colon, partitions = value.partition(":")
        if not topic:
            self.fail(f"{value!r} has no topic", param, ctx)
        return topic, Partitions().convert(partitions, param, ctx) if colon else None


def partitions_of(scopes: Iterable[Scope], existing: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Return the requested partitions: those with a number, and for whole topics those in `existing`."""
    keys = list(existing)
    found: set[TopicPartition] = set()
    for topic, indexes in scopes:
        found |= {key for key in keys if key[0] == topic} if indexes is None else {(topic, index) for index in indexes}
    return found
