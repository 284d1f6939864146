"""`minibroker storage`: commands for log directories of minibroker and Apache Kafka. They need no broker."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from minibroker.cli.options import pairs
from minibroker.cli.scram_arguments import parse_scram
from minibroker.cli.storage_check import check
from minibroker.cli.storage_info import info
from minibroker.cluster.directories.storage_formatting import format_directories
from minibroker.config.broker_config import BrokerConfig
from minibroker.storage.files import RealFiles


@click.command(
    "format",
    short_help="Prepare log directories for a first start.",
    epilog="""\b
Examples:
  minibroker storage format ./data
  minibroker storage format -c server.properties -t 4L6g3nShT-eMCtK--X86sw --ignore-formatted
  minibroker storage format ./data --feature transaction.version=2 --feature group.version=1
  minibroker storage format ./data --add-scram 'SCRAM-SHA-256=[name=alice,password=secret]'
""",
)
@click.argument("directories", nargs=-1, type=click.Path(file_okay=False), metavar="[DIR]...")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties file, for node.id, and for log.dirs without DIR.",
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set one property; overrides file and environment.")
@click.option("-t", "--cluster-id", metavar="ID", help="The cluster id, 22 characters.  [default: a random one]")
@click.option(
    "-f", "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="The level of a feature, such as metadata.version=25."
)
@click.option(
    "-S",
    "--add-scram",
    "scram_users",
    multiple=True,
    metavar="MECHANISM=[...]",
    help="A user who can log in at the first start: [name=NAME,password=PASSWORD], also with iterations, salt, saltedpassword.",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Do not fail if a directory is formatted already; leave it unchanged.")
def storage_format(
    directories: tuple[str, ...],
    *,
    config_file: Path | None,
    assignments: tuple[str, ...],
    cluster_id: str | None,
    features: tuple[str, ...],
    scram_users: tuple[str, ...],
    ignore_formatted: bool,
) -> None:
    """Prepare log directories for a first start, of minibroker or of Apache Kafka.

    `minibroker serve` needs no preparation. This command is for a chosen cluster id or features, and for scripts that call
    `kafka-storage format`. The first DIR gets the metadata log, unless metadata.log.dir names another.
    """
    config = BrokerConfig.load(file=config_file, environment=os.environ, assignments=assignments)
    paths = directories or config.log_dirs
    metadata_path = config.metadata_log_dir or paths[0]
    chosen, formatted = format_directories(
        RealFiles(),
        list(dict.fromkeys((*paths, metadata_path))),
        metadata_path=metadata_path,
        cluster_id=cluster_id or config.cluster_id,
        node_id=config.node_id,
        features=_levels(features),
        scram_users=[parse_scram(text) for text in scram_users],
        ignore_formatted=ignore_formatted,
        now_ms=time.time_ns() // 1_000_000,
    )
    for path in formatted:
        click.echo(f"{path}: formatted for node {config.node_id} of cluster {chosen}")
    if scram_users and metadata_path not in formatted:
        click.echo(f"Warning: {metadata_path} was formatted before, so --add-scram changed nothing", err=True)
    if not formatted:
        click.echo("Everything is formatted already.")


def _levels(features: tuple[str, ...]) -> dict[str, int]:
    levels = {}
    for name, level in pairs(features, "--feature").items():
        if not level.isdecimal():
            raise click.BadParameter(f"{level!r} is no level", param_hint="--feature")
        levels[name] = int(level)
    return levels


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
