"""kafka-cluster, kafka-broker-api-versions, kafka-log-dirs, and `cub kafka-ready` of Confluent's utility belt."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from minibroker.cli.api_versions import apis_of
from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, client_of, java_name, parser
from minibroker.client.errors import ClientError, describe, refusal
from minibroker.client.topics import describe_log_dirs
from minibroker.errors import KafkaError
from minibroker.schemas.k35_describe_log_dirs import LogDirResult

_PAUSE_S = 0.1  #: between two tries of cub


def run_cluster(arguments: Sequence[str]) -> int:
    """Print the id of the cluster like Kafka's ClusterTool."""
    tool_parser = parser("kafka-cluster", "The Kafka cluster tool.")
    tool_parser.add_argument("command", choices=["cluster-id"])
    add_bootstrap(tool_parser)
    with client_of(tool_parser.parse_args(arguments)) as client:
        client.metadata([])
        print(f"Cluster ID: {client.cluster_id}")
    return 0


def run_broker_api_versions(arguments: Sequence[str]) -> int:
    """Print the APIs of all brokers, with the versions that minibroker's client would use."""
    tool_parser = parser("kafka-broker-api-versions", "This tool helps to retrieve broker version information.")
    add_bootstrap(tool_parser)
    with client_of(tool_parser.parse_args(arguments)) as client:
        brokers = sorted(client.metadata([]).brokers, key=lambda broker: broker.node_id)
        for broker in brokers:
            answer = client.to_node(broker.node_id, client.deadline()).api_versions
            lines = []
            for row in apis_of(answer):
                low, high = row["min_version"], row["max_version"]
                usable = row["usable"] if row["usable"] is not None else "none"
                lines.append(f"\t{row['name']}({row['api_key']}): {low if low == high else f'{low} to {high}'} [usable: {usable}]")
            entries = ",\n".join(lines)
            print(f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false) -> (\n{entries}\n)")
    return 0


def run_cub(arguments: Sequence[str]) -> int:
    """Wait until the cluster has the expected number of brokers; 1 after the time-out."""
    tool_parser = parser("cub", "Wait for brokers.")
    tool_parser.add_argument("command", choices=["kafka-ready"])
    tool_parser.add_argument("-b", "--bootstrap-server", required=True)
    tool_parser.add_argument("-c", "--config")
    tool_parser.add_argument("-s", "--security")
    tool_parser.add_argument("expected_brokers", type=int)
    tool_parser.add_argument("timeout", type=float, help="Seconds.")
    options = tool_parser.parse_args(arguments)
    deadline_s = time.monotonic() + options.timeout
    problem = "no broker answered"
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            with client_of(options, max(1, int(left_s * 1000))) as client:
                broker_count = len(client.metadata([]).brokers)
            if broker_count >= options.expected_brokers:
                return 0
            problem = f"{broker_count} brokers of {options.expected_brokers}"
        except (ClientError, KafkaError) as error:
            problem = describe(error)
        if time.monotonic() >= deadline_s:
            print(f"cub kafka-ready: {problem}", file=sys.stderr)
            return 1
        time.sleep(_PAUSE_S)


def run_log_dirs(arguments: Sequence[str]) -> int:
    """Print log directories with the output of Kafka's LogDirsCommand; partitions are sorted by name."""
    tool_parser = parser("kafka-log-dirs", "This tool helps to query log directory usage on the specified brokers.")
    add_bootstrap(tool_parser)
    tool_parser.add_argument("--describe", action="store_true", help="REQUIRED: Describe the log directories.")
    tool_parser.add_argument("--broker-list", default="", metavar="ID,...", help="The brokers to ask.  [default: all]")
    tool_parser.add_argument("--topic-list", default="", metavar="TOPIC,...", help="The topics to show.  [default: all]")
    options = tool_parser.parse_args(arguments)
    if not options.describe:
        raise UsageError('Missing required argument "[describe]"')
    topics = set(_items(options.topic_list))
    with client_of(options) as client:
        client.metadata([])
        chosen = _node_ids(options.broker_list) or sorted(client.brokers)
        absent = [node_id for node_id in chosen if node_id not in client.brokers]
        if absent:
            existing = _joined(sorted(client.brokers))
            print(
                f"ERROR: The given brokers do not exist from --broker-list: {_joined(absent)}. Current existent brokers: {existing}",
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
