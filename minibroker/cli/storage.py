"""`minibroker storage`: commands for log directories of minibroker and Apache Kafka. They need no broker."""

from __future__ import annotations

import click

from minibroker.cli.storage_check import check
from minibroker.cli.storage_format import storage_format
from minibroker.cli.storage_info import info


@click.group(
    epilog="""\b
Examples:
  minibroker storage check ./data
  minibroker storage check --deep -o json /var/lib/kafka/data
  minibroker storage info ./data
  minibroker storage info ./data --server-properties > kafka.properties
"""
)
def storage() -> None:
    """Check, show and prepare log directories."""


storage.add_command(check)
storage.add_command(info)
storage.add_command(storage_format)
