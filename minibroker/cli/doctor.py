"""`minibroker doctor`: find out why clients on this machine cannot work with a cluster."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from minibroker.cli.options import bootstrap_option, client_connect, output_option
from minibroker.cli.output import emit
from minibroker.client.doctor import PROBLEM, Finding
from minibroker.client.doctor.addresses import Network, resolve
from minibroker.client.doctor.checkup import Checkup
from minibroker.client.transport import parse_bootstrap

WIDTH = 110
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # Docker's, Podman's


def network() -> Network:
    """Return the network of this machine; tests replace it."""
    return Network(resolve, client_connect(), is_container=any(mark.exists() for mark in _CONTAINER_MARKS))


@click.command(
    epilog="""\b
Examples:
  minibroker doctor
  minibroker doctor -b localhost:32768
  docker run --rm --network app_default minibroker minibroker doctor -b broker:19092
"""
)
@bootstrap_option
@click.option(
    "--timeout", type=click.FloatRange(min=0.001), default=5.0, show_default=True, metavar="SECONDS", help="Time to wait for each address."
)
@output_option("text", "json", "jsonl", "yaml")
def doctor(bootstrap_server: str, timeout: float, output: str) -> None:
    """Find out why clients on this machine cannot work with a cluster.

    Connects as a client does from this machine: to the given addresses, then to every address that the brokers advertise
    (advertised.listeners). If an address cannot work, prints what to set. Then checks versions, log directories, partitions without
    leader, and settings that need more brokers than there are. Changes nothing. The exit code is 1 if there is a problem.
    """
    findings: list[Finding] = []
    for finding in Checkup(network(), int(timeout * 1000)).findings(parse_bootstrap(bootstrap_server)):
        findings.append(finding)
        if output == "text":
            click.echo(_text(finding))
    problems = sum(finding.severity == PROBLEM for finding in findings)
    if output == "text":
        click.echo("no problem found" if not problems else f"{problems} problem{'' if problems == 1 else 's'} found")
    else:
        emit([finding._asdict() for finding in findings], output, columns=(), name="subject")
    if problems:
        raise click.exceptions.Exit(1)


def _text(finding: Finding) -> str:
    text = f"{finding.severity:<8} {finding.subject}: {finding.text}"
    if not finding.advice:
        return text
    lines = textwrap.wrap(finding.advice, WIDTH - 9, break_on_hyphens=False, break_long_words=False)
    return "\n".join([text, *(f"{'':9}{line}" for line in lines)])
