"""kafka-log-dirs: show the sizes of brokers' log directories as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, java_name, parser
from minibroker.client.errors import refusal
from minibroker.client.topics import describe_log_dirs
from minibroker.errors import KafkaError
from minibroker.schemas.k35_describe_log_dirs import LogDirResult


def run(arguments: Sequence[str]) -> int:
    """Run the tool, with the output of Kafka's LogDirsCommand; partitions are sorted by name."""
    made = parser("kafka-log-dirs", "This tool helps to query log directory usage on the specified brokers.")
    add_bootstrap(made)
    made.add_argument("--describe", action="store_true", help="REQUIRED: Describe the log directories.")
    made.add_argument("--broker-list", default="", metavar="ID,...", help="The brokers to ask.  [default: all]")
    made.add_argument("--topic-list", default="", metavar="TOPIC,...", help="The topics to show.  [default: all]")
    options = made.parse_args(arguments)
    if not options.describe:
        raise UsageError('Missing required argument "[describe]"')
    topics = set(_items(options.topic_list))
    with client_of(options) as client:
        client.metadata([])
        chosen = _node_ids(options.broker_list) or sorted(client.brokers)
        absent = [node_id for node_id in chosen if node_id not in client.brokers]
        if absent:
            there = _joined(sorted(client.brokers))
            print(
                f"ERROR: The given brokers do not exist from --broker-list: {_joined(absent)}. Current existent brokers: {there}",
                file=sys.stderr,
            )
            return 1
        print("Querying brokers for log directories information")
        brokers = []
        for node_id, answer in describe_log_dirs(client, chosen).items():
            if isinstance(answer, KafkaError):
                raise answer
            brokers.append({"broker": node_id, "logDirs": [_directory(each, topics) for each in answer]})
    print(f"Received log directory information from brokers {_joined(chosen)}")
    print(json.dumps({"version": 1, "brokers": brokers}, separators=(",", ":"), ensure_ascii=False))
    return 0


def _node_ids(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(map(int, _items(text))))
    except ValueError as error:
        raise UsageError(f"--broker-list: {text} is not a list of broker ids such as 1,2") from error


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _joined(node_ids: Sequence[int]) -> str:
    return ",".join(map(str, node_ids))


def _directory(directory: LogDirResult, topics: set[str]) -> dict[str, Any]:
    error = refusal(directory.error_code, directory.log_dir)
    partitions = [
        {
            "partition": f"{topic.name}-{each.partition_index}",
            "size": each.partition_size,
            "offsetLag": each.offset_lag,
            "isFuture": each.is_future_key,
        }
        for topic in sorted(directory.topics, key=lambda topic: topic.name)
        if not topics or topic.name in topics
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return {"partitions": partitions, "error": None if error is None else java_name(error), "logDir": directory.log_dir}
