"""`minibroker lab leaders` and `lab nodes`: who leads partitions, and which brokers are up."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.lab.asking import Lab, lab_command, partition_arguments
from minibroker.cli.options import output_option
from minibroker.cli.output import FORMATS, emit


@click.group()
def leaders() -> None:
    """Change who leads partitions."""


def _place(lab: Lab, what: str, topic: str, partition: int, **more: Any) -> None:
    lab(f"leaders.{what}", topic=topic, partition=partition, **more)


def _plain(what: str, short_help: str, help_text: str) -> None:
    """A command that needs to know nothing but the partition."""

    def run(lab: Lab, topic: str, partition: int) -> None:
        _place(lab, what, topic, partition)

    run.__doc__ = help_text
    leaders.command(what.replace("_", "-"), short_help=short_help)(partition_arguments(lab_command(run)))


_plain("take_away", "Leave a partition without a leader.", "Leave a partition without a leader, until 'give-back' or 'reset'.")
_plain("give_back", "Let a partition have a leader again.", "Let a partition have a leader again.")
_plain(
    "bump_epoch",
    "Raise a partition's leader epoch.",
    "Let a partition have a later leader epoch, with the same leader: clients are fenced, and ask anew.",
)


@leaders.command(short_help="Let another broker lead a partition.")
@partition_arguments
@click.option("--to", type=int, required=True, metavar="ID", help="The broker; see 'serve --brokers'.")
@lab_command
def move(lab: Lab, topic: str, partition: int, *, to: int) -> None:
    """Let another broker lead a partition."""
    _place(lab, "move", topic, partition, to=to)


@leaders.command(short_help="Elect the preferred leader of a partition.")
@partition_arguments
@click.option("--unclean", is_flag=True, help="Elect anybody who is alive, where nobody leads.")
@lab_command
def elect(lab: Lab, topic: str, partition: int, *, unclean: bool) -> None:
    """Let the preferred replica of a partition lead it."""
    _place(lab, "elect", topic, partition, unclean=unclean or None)


@leaders.command(short_help="Show who leads a partition.")
@partition_arguments
@output_option(*FORMATS[:-1])
@lab_command
def describe(lab: Lab, topic: str, partition: int, *, output: str) -> None:
    """Show who leads a partition, in which epoch, its replicas and those in sync."""
    found = lab("leaders.describe", topic=topic, partition=partition)
    row = {"topic": topic, "partition": partition} | found
    emit([row], output, columns=tuple(row))


@click.group()
def nodes() -> None:
    """Stop and start single brokers of 'serve --brokers 3'."""


@nodes.command("list", short_help="Show the brokers.")
@output_option(*FORMATS)
@lab_command
def list_(lab: Lab, *, output: str) -> None:
    """Show the brokers: their addresses, and whether they are up."""
    alive = set(lab("nodes.alive"))
    addresses = {int(node): address for node, address in lab("nodes.addresses").items()}
    rows = [{"id": node, "address": addresses.get(node), "alive": node in alive} for node in sorted(addresses.keys() | alive)]
    emit(rows, output, columns=("id", "address", "alive"), name="id")


@nodes.command(short_help="Stop a broker.")
@click.argument("node", type=int)
@lab_command
def stop(lab: Lab, node: int) -> None:
    """Close a broker's listeners and connections; its partitions find other leaders, or have none."""
    lab("nodes.stop", node=node)


@nodes.command(short_help="Start a broker again.")
@click.argument("node", type=int)
@lab_command
def start(lab: Lab, node: int) -> None:
    """Let a broker serve again that was stopped."""
    lab("nodes.start", node=node)
