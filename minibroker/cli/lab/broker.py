"""Commands on the broker, its leaders and nodes. Most are derived from one operation; the others show or combine several."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Final

import click

from minibroker.cli.lab.calling import HttpLab, derived, pass_lab
from minibroker.cli.options import output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.testing.lab.operations import BrokerOperations, HighWatermarks, Leaders, Nodes
from minibroker.testing.request_log import WAITING, LoggedRequest, from_json

_PAUSE_S: Final = 0.2

reset = derived(BrokerOperations.reset)
snapshot = derived(BrokerOperations.snapshot, required={"name"})
restore = derived(BrokerOperations.restore)
hold = derived(HighWatermarks.hold, prints="Prints the number of the hold.", text=lambda result: result["id"])
release = derived(HighWatermarks.release, leave_out={"id"}, prints="Prints the number of released holds.")


@click.command(short_help="Advance the broker's clock without waiting.")
@click.option("--days", type=float, default=0.0)
@click.option("--hours", type=float, default=0.0)
@click.option("--minutes", type=float, default=0.0)
@click.option("--seconds", type=float, default=0.0)
@click.option("--ms", type=float, default=0.0, help="Milliseconds. The options are added up.")
@pass_lab
def advance(lab: HttpLab, *, days: float, hours: float, minutes: float, seconds: float, ms: float) -> None:
    """Advance the broker's clock without waiting.

    Retention, timeouts of members and transactions, and LogAppendTime follow.
    """
    delta = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
    if not delta:
        raise click.UsageError("give a time, such as --hours 2")
    lab.broker.advance(delta / timedelta(milliseconds=1))


@click.command(short_help="Show the broker's address, time and state.")
@output_option(*FORMATS[:-1])
@pass_lab
def info(lab: HttpLab, *, output: str) -> None:
    """Show where the broker listens, its time, whether its log directories are online, snapshots and holds."""
    held = [f"{each['topic']}-{each['partition']}" for each in lab.high_watermarks.list()]
    found = lab.broker.info() | {"snapshots": lab.broker.snapshots(), "held": held}
    if output == "table":
        found["log_dirs"] = [f"{path} ({'online' if is_online else 'offline'})" for path, is_online in found["log_dirs"].items()]
    emit([found], output, columns=("bootstrap_servers", "now_ms", "log_dirs", "snapshots", "held"))


@click.command(short_help="Execute any operation of the lab.")
@click.argument("command")
@click.argument("arguments", default="{}", metavar="[JSON]")
@pass_lab
def do(lab: HttpLab, command: str, arguments: str) -> None:
    """Execute any operation of the lab with its arguments as a JSON object, and print its result as JSON.

    GET / of the lab lists the operations.
    """
    try:
        values = json.loads(arguments)
    except ValueError as error:
        raise click.UsageError(f"{arguments!r} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise click.UsageError(f"{arguments!r} is not a JSON object")
    click.echo(json.dumps(lab.execute(command, {name: value for name, value in values.items() if value is not None})))


# -- requests -----------------------------------------------------------------------------------------------------------


@click.command(short_help="Show requests of clients.")
@click.option("-f", "--follow", is_flag=True, help="Continue, and show each request when it is answered.")
@output_option("text", "jsonl")
@pass_lab
def requests(lab: HttpLab, *, follow: bool, output: str) -> None:
    """Show the last 10,000 requests of clients since the start or the last reset: client, API, topics, and what the broker answered."""
    for request in _following(lab) if follow else _read(lab, 0)[2]:
        click.echo(json.dumps(asdict(request)) if output == "jsonl" else str(request))


def _read(lab: HttpLab, since: int) -> tuple[int, int, list[LoggedRequest]]:
    """Return the number of the first request, the number that the next request will get, and the requests."""
    found = lab.broker.requests(since)
    return found["first"], found["next"], [*from_json(found["rows"])]


def _following(lab: HttpLab) -> Iterator[LoggedRequest]:
    """Yield requests in the order of their answers. Waiting requests are read again until they are answered."""
    since, seen = 0, set[int]()
    while True:
        first, next_number, found = _read(lab, since)
        if next_number < since:  # another broker
            since, seen = 0, set()
            continue
        waiting = []
        for number, request in enumerate(found, first):
            if request.outcome == WAITING:
                waiting.append(number)
            elif number not in seen:
                seen.add(number)
                yield request
        since = min(waiting, default=next_number)
        seen = {number for number in seen if number >= since}
        time.sleep(_PAUSE_S)


@click.command(short_help="Show a metric of the broker.")
@click.argument("name")
@output_option(*FORMATS[:-1])
@pass_lab
def metrics(lab: HttpLab, *, name: str, output: str) -> None:
    """Show the series of one metric, by any name of docs/metrics.md."""
    rows = lab.broker.metrics(name)
    if output == "table":
        rows = [row | {"labels": ", ".join(f"{label}={text}" for label, text in row["labels"].items())} for row in rows]
    emit(rows, output, columns=("labels", "value"), empty="The metric has no series now.")


@click.command(short_help="Show the metrics that clients push.")
@click.option("--metrics", "shows_metrics", is_flag=True, help="Show each metric instead of one line for each client.")
@output_option(*FORMATS[:-1])
@pass_lab
def clients(lab: HttpLab, *, shows_metrics: bool, output: str) -> None:
    """Show the clients that push their own metrics, also those that closed in the last minutes."""
    found = lab.broker.clients()
    if shows_metrics:
        rows = [{"client_id": client["client_id"], **metric} for client in found for metric in client["metrics"]]
        if output == "table":
            rows = [row | {"labels": ", ".join(f"{name}={text}" for name, text in row["labels"].items())} for row in rows]
        emit(rows, output, columns=("client_id", "name", "labels", "value", "unit"))
        return
    rows = [client | {"metrics": len(client["metrics"])} for client in found]
    emit(
        rows,
        output,
        columns=("client_id", "software_name", "software_version", "host", "port", "push_count", "is_connected", "metrics"),
        empty="No client has pushed metrics.",
    )


# -- leaders and brokers ------------------------------------------------------------------------------------------------


@click.group()
def leaders() -> None:
    """Change who leads partitions."""


@leaders.command(short_help="Show who leads a partition.")
@click.argument("topic")
@click.argument("partition", type=click.IntRange(0))
@output_option(*FORMATS[:-1])
@pass_lab
def describe(lab: HttpLab, topic: str, partition: int, *, output: str) -> None:
    """Show who leads a partition, in which epoch, its replicas and those in sync."""
    row = {"topic": topic, "partition": partition} | lab.leaders.describe(topic, partition)
    emit([row], output, columns=tuple(row))


for _operation in (Leaders.take_away, Leaders.give_back, Leaders.move, Leaders.bump_epoch, Leaders.elect):
    leaders.add_command(derived(_operation))


@click.group()
def nodes() -> None:
    """Stop and start single brokers of 'serve --brokers 3'."""


@nodes.command("list", short_help="Show the brokers.")
@output_option(*FORMATS)
@pass_lab
def list_(lab: HttpLab, *, output: str) -> None:
    """Show the brokers: their addresses, and whether they are up."""
    alive = set(lab.nodes.alive)
    addresses = lab.nodes.addresses
    rows = [{"id": node, "address": addresses.get(node), "alive": node in alive} for node in sorted(addresses.keys() | alive)]
    emit(rows, output, columns=("id", "address", "alive"), name="id")


nodes.add_command(derived(Nodes.stop))
nodes.add_command(derived(Nodes.start))
