"""`minibroker log-dirs`: the equivalent of Kafka's LogDirsCommand."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.completions import topic_names
from minibroker.cli.options import client_command, fail_with, output_option
from minibroker.cli.output import FORMATS, emit
from minibroker.client.client import Client
from minibroker.client.errors import refusal
from minibroker.client.topics import describe_log_dirs
from minibroker.errors import KafkaError, UnknownTopicOrPartition
from minibroker.schemas.k35_describe_log_dirs import LogDirResult

DIRECTORY_COLUMNS = ("broker", "log_dir", "partitions", "size", "usable_bytes", "total_bytes", "cordoned")
PARTITION_COLUMNS = ("topic", "partition", "broker", "log_dir", "size", "offset_lag", "future")


@click.command(
    "log-dirs",
    epilog="""\b
Examples:
  minibroker log-dirs
  minibroker log-dirs --partitions --topic orders
  minibroker log-dirs --partitions -o jsonl | jq -s 'sort_by(-.size)[:10]'
""",
)
@click.option("--partitions", is_flag=True, help="Show each partition's log instead of the directories.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    shell_complete=topic_names,
    help="Only this topic; may be given several times.",
)
@click.option(
    "--broker-id",
    "node_ids",
    multiple=True,
    type=click.INT,
    metavar="ID",
    help="Only directories of this broker; may be given several times.",
)
@output_option(*FORMATS)
@client_command
def log_dirs(client: Client, *, partitions: bool, topics: tuple[str, ...], node_ids: tuple[int, ...], output: str) -> None:
    """Show the log directories of brokers and what is in them, in bytes.

    SIZE counts the segments' records, without indexes. With --topic, the partitions and size of a directory are only those of the topic.
    """
    items: list[dict[str, Any]] = []
    errors: list[Exception] = []
    seen: set[str] = set()
    for node_id, answer in describe_log_dirs(client, node_ids).items():
        if isinstance(answer, KafkaError):
            errors.append(answer)
            continue
        for each in answer:
            error = refusal(each.error_code, f"log directory {each.log_dir} of broker {node_id}")
            if error is not None:
                errors.append(error)
                continue
            found = _logs(node_id, each, topics)
            seen.update(item["topic"] for item in found)
            items += found if partitions else [_directory(node_id, each, found)]
    errors += [UnknownTopicOrPartition(f"topic {topic} is in no log directory") for topic in dict.fromkeys(topics) if topic not in seen]
    name = "log_dir"
    if partitions:
        items.sort(key=lambda item: (item["topic"], item["partition"], item["broker"]))
        if output == "name":
            name, items = "name", [{"name": f"{item['topic']}:{item['partition']}"} for item in items]
    if items or output == "json" or not errors:
        emit(items, output, columns=PARTITION_COLUMNS if partitions else DIRECTORY_COLUMNS, name=name, empty="No partitions.")
    fail_with(errors)


def _logs(node_id: int, directory: LogDirResult, topics: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic.name,
            "partition": each.partition_index,
            "broker": node_id,
            "log_dir": directory.log_dir,
            "size": each.partition_size,
            "offset_lag": each.offset_lag,
            "future": each.is_future_key,
        }
        for topic in directory.topics
        if not topics or topic.name in topics
        for each in topic.partitions
    ]


def _directory(node_id: int, directory: LogDirResult, logs: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "broker": node_id,
        "log_dir": directory.log_dir,
        "partitions": len(logs),
        "size": sum(log["size"] for log in logs),
        "total_bytes": None if directory.total_bytes < 0 else directory.total_bytes,
        "usable_bytes": None if directory.usable_bytes < 0 else directory.usable_bytes,
        "cordoned": directory.is_cordoned,
    }
