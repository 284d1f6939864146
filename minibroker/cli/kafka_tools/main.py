"""Run a tool by the name of the link that was called, or by `minibroker kafka-tool NAME`; print failures as one line."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath
from typing import Any

import click

#: tool -> module of this package and its function, `(arguments) -> exit code`
TOOLS: dict[str, str] = {
    "cub": "brokers.run_cub",
    "kafka-acls": "acls.run",
    "kafka-broker-api-versions": "brokers.run_broker_api_versions",
    "kafka-cluster": "brokers.run_cluster",
    "kafka-configs": "configs.run",
    "kafka-console-consumer": "console_consumer.run",
    "kafka-console-producer": "console_producer.run",
    "kafka-consumer-groups": "consumer_groups.run",
    "kafka-delegation-tokens": "delegation_tokens.run",
    "kafka-delete-records": "offsets.run_delete_records",
    "kafka-dump-log": "main.run_dump_log",
    "kafka-get-offsets": "offsets.run_get_offsets",
    "kafka-log-dirs": "brokers.run_log_dirs",
    "kafka-run-class": "main.run_class",
    "kafka-server-start": "server.run_server_start",
    "kafka-server-stop": "server.run_server_stop",
    "kafka-storage": "server.run_storage",
    "kafka-topics": "topics.run",
    "zookeeper-server-start": "server.run_zookeeper_start",
}
#: Kafka's class of a tool -> tool, for kafka-run-class
CLASSES = {
    "GetOffsetShell": "kafka-get-offsets",
    "DumpLogSegments": "kafka-dump-log",
    "TopicCommand": "kafka-topics",
    "ConsoleConsumer": "kafka-console-consumer",
    "ConsoleProducer": "kafka-console-producer",
    "ConsumerGroupCommand": "kafka-consumer-groups",
    "ConfigCommand": "kafka-configs",
    "BrokerApiVersionsCommand": "kafka-broker-api-versions",
    "ClusterTool": "kafka-cluster",
    "StorageTool": "kafka-storage",
    "LogDirsCommand": "kafka-log-dirs",
    "AclCommand": "kafka-acls",
    "DelegationTokenCommand": "kafka-delegation-tokens",
    "DeleteRecordsCommand": "kafka-delete-records",
}


def names() -> list[str]:
    """Return the names of all tools, without `.sh`."""
    return list(TOOLS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool whose name started this process, and exit; SIGTERM (`timeout 5 ...`) stops it like Ctrl-C."""
    name, *rest = sys.argv if arguments is None else arguments
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run_tool(PurePath(name).name.removesuffix(".sh"), rest)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def run_tool(name: str, arguments: Sequence[str]) -> int:
    """Return the tool's exit code; after a failure 1, with one line on stderr."""
    if name not in TOOLS:
        print(f"{name} is not a tool of minibroker; there are {', '.join(TOOLS)}", file=sys.stderr)
        return 1
    try:
        return _run(name, list(arguments))
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from minibroker.cli.failures import tool_failure  # noqa: PLC0415  only a failure needs it

        words = tool_failure(error)
        if words is None:
            raise
        print(words, file=sys.stderr)
        return 1


def run_dump_log(arguments: Sequence[str]) -> int:
    """Run `minibroker dump-log`, which takes the options of DumpLogSegments."""
    import_module("minibroker.cli.dump_log").dump_log.main(list(arguments), prog_name="kafka-dump-log", standalone_mode=False)
    return 0


def run_class(arguments: Sequence[str]) -> int:
    """Run the tool of a class, in any package."""
    name = arguments[0].rpartition(".")[2] if arguments else ""
    if name not in CLASSES:
        words = f"kafka-run-class: {name or 'no class'} is not a class that minibroker has: {', '.join(CLASSES)}"
        print(words, file=sys.stderr)
        return 1
    return _run(CLASSES[name], arguments[1:])


def _run(name: str, arguments: Sequence[str]) -> int:
    module, function = TOOLS[name].split(".")
    code: int = getattr(import_module(f"minibroker.cli.kafka_tools.{module}"), function)(arguments)
    return code


class ToolName(click.Choice[str]):
    """The name of a tool, with or without `.sh`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name without `.sh`; fail with the list of tools for an unknown name."""
        return super().convert(str(value).removesuffix(".sh"), param, ctx)


@click.command(
    "kafka-tool",
    short_help="Run one of Kafka's tools by its name, with its options.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="""\b
Examples:
  minibroker kafka-tool kafka-topics --bootstrap-server localhost:9092 --list
  minibroker kafka-tool kafka-consumer-groups --bootstrap-server localhost:9092 --describe --group billing
""",
)
@click.argument("name", type=ToolName(list(TOOLS)), metavar="NAME")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def kafka_tool(name: str, arguments: tuple[str, ...]) -> None:
    """Run one of Kafka's tools by its name, with its options.

    For scripts that call kafka-topics.sh and the like on machines without Kafka. --help after NAME shows the options. Without NAME, it
    lists the tools. The container image has each of them in /opt/kafka/bin, and without .sh in /usr/bin.
    """
    raise SystemExit(run_tool(name, list(arguments)))
