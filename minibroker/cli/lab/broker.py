"""Commands on the broker as a whole: its time, its data, high watermarks."""

from __future__ import annotations

import json
from datetime import timedelta

import click

from minibroker.cli.lab.asking import Lab, lab_command, partition_arguments
from minibroker.cli.options import output_option
from minibroker.cli.output import FORMATS, emit


@click.command(short_help="Let time go by for the broker, at once.")
@click.option("--days", type=float, default=0.0)
@click.option("--hours", type=float, default=0.0)
@click.option("--minutes", type=float, default=0.0)
@click.option("--seconds", type=float, default=0.0)
@click.option("--ms", type=float, default=0.0, help="Milliseconds; all of them are added.")
@lab_command
def advance(lab: Lab, *, days: float, hours: float, minutes: float, seconds: float, ms: float) -> None:
    """Let time go by for the broker, at once: retention, time-outs of members and transactions, LogAppendTime follow."""
    delta = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms)
    if not delta:
        raise click.UsageError("say how long: --hours 2")
    lab("advance", ms=delta / timedelta(milliseconds=1))


@click.command(short_help="Forget everything: topics, groups, transactions, faults.")
@lab_command
def reset(lab: Lab) -> None:
    """Forget everything: topics, groups, transactions, altered configs, faults and holds. Clients stay connected."""
    lab("reset")


@click.command(short_help="Keep the broker's data under a name.")
@click.argument("name")
@lab_command
def snapshot(lab: Lab, name: str) -> None:
    """Keep what there is now under NAME, until the broker stops; an earlier snapshot of that name is replaced."""
    lab("snapshot", name=name)


@click.command(short_help="Put the data of a snapshot back.")
@click.argument("name")
@lab_command
def restore(lab: Lab, name: str) -> None:
    """Be as when the snapshot NAME was taken. Faults and holds end."""
    lab("restore", name=name)


@click.command(short_help="Hold a partition's high watermark back.")
@partition_arguments
@lab_command
def hold(lab: Lab, topic: str, partition: int) -> None:
    """Hold the high watermark of a partition back: what is written from now on nobody reads, and acks=all waits.

    Prints the number of the hold.
    """
    click.echo(lab("high_watermark.hold", topic=topic, partition=partition)["id"])


@click.command(short_help="Let high watermarks go again.")
@click.argument("topic", required=False)
@click.argument("partition", type=click.IntRange(0), required=False)
@lab_command
def release(lab: Lab, topic: str | None, partition: int | None) -> None:
    """Release what is held: of a partition, of a topic, or all. Prints how many holds there were."""
    click.echo(lab("high_watermark.release", topic=topic, partition=partition))


@click.command(short_help="Show the broker's address, time and state.")
@output_option(*FORMATS[:-1])
@lab_command
def info(lab: Lab, *, output: str) -> None:
    """Show where the broker listens, its time, whether its log directories are online, snapshots and holds."""
    found = lab("info") | {"snapshots": lab("snapshots"), "held": [_held(each) for each in lab("high_watermark.list")]}
    if output == "table":
        found["log_dirs"] = [f"{path} ({'online' if is_online else 'offline'})" for path, is_online in found["log_dirs"].items()]
    emit([found], output, columns=("bootstrap_servers", "now_ms", "log_dirs", "snapshots", "held"))


def _held(row: dict[str, object]) -> str:
    return f"{row['topic']}-{row['partition']}"


@click.command(short_help="Do any command of the lab.")
@click.argument("command")
@click.argument("arguments", default="{}", metavar="[JSON]")
@lab_command
def do(lab: Lab, command: str, arguments: str) -> None:
    """Do any command of the lab with its arguments as a JSON object, and print what it answers as JSON; GET / of the lab tells them."""
    try:
        given = json.loads(arguments)
    except ValueError as error:
        raise click.UsageError(f"{arguments!r} is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise click.UsageError(f"{arguments!r} is no JSON object")
    click.echo(json.dumps(lab(command, **given)))
