"""Which tool is called, by the name of the link that was run or by `minibroker kafka-tool NAME`, and how a tool fails."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import PurePath

#: tool -> module of this package
TOOLS: dict[str, str] = {
    "cub": "cub",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-cluster": "cluster",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-delete-records": "delete_records",
    "kafka-dump-log": "dump_log",
    "kafka-get-offsets": "get_offsets",
    "kafka-log-dirs": "log_dirs",
    "kafka-run-class": "run_class",
    "kafka-server-start": "server_start",
    "kafka-server-stop": "server_stop",
    "kafka-storage": "storage",
    "kafka-topics": "topics",
    "zookeeper-server-start": "zookeeper",
}


def names() -> list[str]:
    """Every tool, by Kafka's name without `.sh`."""
    return list(TOOLS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tool by whose name this process was started, and end; SIGTERM (`timeout 5 ...`) ends it as Ctrl-C does."""
    name, *rest = sys.argv if arguments is None else arguments
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run_tool(PurePath(name).name.removesuffix(".sh"), rest)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


def run_tool(name: str, arguments: Sequence[str]) -> int:
    """The tool's exit code; 1, and one line on stderr, where it fails."""
    if name not in TOOLS:
        print(f"{name} is no tool of minibroker; there are {', '.join(TOOLS)}", file=sys.stderr)
        return 1
    try:
        code: int = import_module(f"minibroker.cli.kafka_tools.{TOOLS[name]}").run(list(arguments))
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from minibroker.cli.failures import failure_of  # noqa: PLC0415  only a failure pays for it
        from minibroker.cli.kafka_tools.arguments import UsageError, words_of  # noqa: PLC0415  as above
        from minibroker.errors import KafkaError  # noqa: PLC0415  as above

        if isinstance(error, UsageError):
            words = str(error)
        elif isinstance(error, KafkaError):
            words = f"Error: {words_of(error)} [{error.name}]"
        elif (failure := failure_of(error)) is not None:
            words = f"Error: {failure.message}"
        else:
            raise
        print(words, file=sys.stderr)
        return 1
    return code
