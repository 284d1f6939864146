"""kafka-run-class: the classes that scripts call by it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from minibroker.cli.kafka_tools.arguments import UsageError

CLASSES = {
    "GetOffsetShell": "get_offsets",
    "DumpLogSegments": "dump_log",
    "TopicCommand": "topics",
    "ConsoleConsumer": "console_consumer",
    "ConsoleProducer": "console_producer",
    "ConsumerGroupCommand": "consumer_groups",
    "ConfigCommand": "configs",
    "BrokerApiVersionsCommand": "broker_api_versions",
    "ClusterTool": "cluster",
    "StorageTool": "storage",
    "LogDirsCommand": "log_dirs",
    "DeleteRecordsCommand": "delete_records",
}


def run(arguments: Sequence[str]) -> int:
    """Run the tool whose class it is, in whatever package Kafka has it."""
    name = arguments[0].rpartition(".")[2] if arguments else ""
    if name not in CLASSES:
        raise UsageError(f"kafka-run-class: {name or 'no class'} is not among those that minibroker has: {', '.join(CLASSES)}")
    code: int = import_module(f"minibroker.cli.kafka_tools.{CLASSES[name]}").run(arguments[1:])
    return code
