"""`minibroker storage info`: show the contents of log directories, and what Apache Kafka needs to open them."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from minibroker.cli.options import output_option
from minibroker.cli.output import table, yaml_text
from minibroker.cluster.directories.storage_report import StorageReport, report_storage, version_text
from minibroker.config.broker_config import BrokerConfig
from minibroker.storage.files import RealFiles

Command = Callable[..., Any]


def with_directories(function: Command) -> Command:
    """Give a command `[DIR]...` and `-c`, and pass it the paths, each once. A configuration adds the metadata log's directory."""

    @click.argument("directories", nargs=-1, type=click.Path(exists=True, file_okay=False), metavar="[DIR]...")
    @click.option(
        "-c",
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Without DIR: the server.properties file with log.dirs.",
    )
    @functools.wraps(function)
    def run(directories: tuple[str, ...], config_file: Path | None, **options: Any) -> Any:
        return function(tuple(dict.fromkeys(directories or _configured(config_file))), **options)

    return run


def _configured(config_file: Path | None) -> list[str]:
    config = BrokerConfig.load(file=config_file, environment=os.environ)
    return [path for path in (*config.log_dirs, config.metadata_log_dir) if path is not None]


TOPIC_COLUMNS = ("name", "partitions", "bytes", "topic_id", "configs")
DIRECTORY_COLUMNS = ("path", "directory_id", "is_formatted", "is_clean", "is_in_use", "partitions", "bytes")

KAFKA_PROPERTIES = """# Apache Kafka 4 opens this directory with these properties; do not format it.
#   bin/kafka-server-start.sh FILE
process.roles=broker,controller
node.id={node_id}
{quorum}
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={log_dirs}
{metadata}offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


@click.command(
    "info",
    short_help="Show what log directories contain.",
    epilog="""\b
Examples:
  minibroker storage info ./data
  minibroker storage info -c server.properties -o json
  minibroker storage info ./data --server-properties > kafka.properties
""",
)
@with_directories
@click.option("--server-properties", is_flag=True, help="Print the server.properties that Apache Kafka needs to open the directories.")
@output_option("text", "json", "yaml")
def info(paths: tuple[str, ...], *, server_properties: bool, output: str) -> None:
    """Show the node and contents of log directories. Writes nothing.

    DIRs are all log.dirs of one node, of minibroker or of Apache Kafka. Each contradiction is a line on stderr and makes the exit
    code 1: a broker would not start on the directories, or not serve all of them.
    """
    report = report_storage(RealFiles(), paths)
    if server_properties:
        _check_formatted(report)
        click.echo(_server_properties(report), nl=False)
    elif output == "json":
        click.echo(json.dumps(report._asdict(), ensure_ascii=False, indent=2))
    elif output == "yaml":
        click.echo(yaml_text(report._asdict()), nl=False)
    else:
        click.echo(_text(report))
    for problem in report.problems:
        click.echo(f"Error: {problem}", err=True)
    if report.problems:
        raise click.exceptions.Exit(1)


def _text(report: StorageReport) -> str:
    lines = [f"cluster id        {report.cluster_id or '-'}", f"node id           {'-' if report.node_id is None else report.node_id}"]
    features = dict(report.features)
    if "metadata.version" in features:
        lines.append(f"metadata.version  {version_text(features.pop('metadata.version'))}")
    if features:
        lines.append(f"features          {', '.join(f'{name}={level}' for name, level in sorted(features.items()))}")
    if report.metadata is not None:
        lines += _metadata_lines(report.metadata)
    parts = ["\n".join(lines), table(report.directories, DIRECTORY_COLUMNS)]
    if report.topics:
        parts.append(table(report.topics, TOPIC_COLUMNS))
    return "\n\n".join(parts)


def _metadata_lines(metadata: dict[str, Any]) -> list[str]:
    torn = f", then {metadata['torn_bytes']} torn bytes" if metadata["torn_bytes"] else ""
    voters = ", ".join(map(str, metadata["voters"])) or "-"
    offsets = f"offsets {metadata['log_start_offset'] or 0} to {metadata['log_end_offset']}, leader epoch {metadata['leader_epoch']}{torn}"
    return [
        f"metadata log      {offsets}",
        f"newest snapshot   {metadata['snapshots'][-1] if metadata['snapshots'] else '-'}",
        f"voters            {voters} (kraft.version {metadata['kraft_version']})",
        f"next producer id  {metadata['next_producer_id']}",
    ]


def _check_formatted(report: StorageReport) -> None:
    """Check that the directories are formatted and have the metadata log: without it, Apache Kafka would start a new cluster."""
    for directory in report.directories:
        if not directory["is_formatted"]:
            raise click.ClickException(
                f"{directory['path']} is not formatted: start minibroker on it first, or run 'minibroker storage format'"
            )
    if report.metadata is None and not report.features:
        raise click.ClickException("there is no metadata log in these directories: give all log.dirs of the node")


def _server_properties(report: StorageReport) -> str:
    paths = [str(Path(directory["path"]).absolute()) for directory in report.directories]
    node_id = 1 if report.node_id is None else report.node_id
    metadata = ""
    quorum = "controller.quorum.bootstrap.servers=localhost:9093"
    if report.metadata is not None:
        if report.metadata["kraft_version"] == 0:
            quorum = f"controller.quorum.voters={node_id}@localhost:9093"
        metadata = f"metadata.log.dir={Path(report.metadata['path']).absolute()}\n"
    return KAFKA_PROPERTIES.format(node_id=node_id, quorum=quorum, log_dirs=",".join(paths), metadata=metadata)
