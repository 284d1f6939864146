"""`minibroker lab`: the operations of a broker that was started with `serve --lab-port`, over HTTP (testing/lab/site.py)."""

from __future__ import annotations

import click

from minibroker.cli.lab.broker import advance, clients, do, hold, info, leaders, metrics, nodes, release, requests, reset, restore, snapshot
from minibroker.cli.lab.calling import HttpLab
from minibroker.cli.lab.faults import faults

DEFAULT_URL = "http://127.0.0.1:9099"


@click.group(
    epilog="""\b
Examples:
  minibroker serve --lab-port 9099
  minibroker lab faults inject Produce NOT_LEADER_OR_FOLLOWER --topic orders --once
  minibroker lab hold orders 0
  minibroker lab advance --hours 2
  minibroker lab reset
"""
)
@click.option(
    "--lab-url",
    envvar="MINIBROKER_LAB_URL",
    show_envvar=True,
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help="URL of the lab that 'serve --lab-port' opens.",
)
@click.pass_context
def lab(ctx: click.Context, lab_url: str) -> None:
    """Inject faults into a broker under test, and change its time and data.

    The broker must have been started with 'serve --lab-port'. docs/lab.md describes each command.
    """
    ctx.obj = HttpLab(lab_url)


for _command in (advance, clients, do, faults, hold, info, leaders, metrics, nodes, release, requests, reset, restore, snapshot):
    lab.add_command(_command)
