"""`minibroker storage`: commands on log directories, of ours and of Apache Kafka's, that need no broker."""

from __future__ import annotations

import click

from minibroker.cli.storage_check import check


@click.group(
    epilog="""\b
Examples:
  minibroker storage check ./data
  minibroker storage check --deep -o json /var/lib/kafka/data
"""
)
def storage() -> None:
    """Check, show and prepare log directories."""


storage.add_command(check)
