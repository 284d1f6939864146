"""`minibroker kafka-tool`: Kafka's own tools by name, as the container image has them in /opt/kafka/bin."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.kafka_tools.main import TOOLS, run_tool


class ToolName(click.Choice[str]):
    """A tool's name; scripts say it with `.sh`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Without `.sh`; the tools there are, for another name."""
        return super().convert(str(value).removesuffix(".sh"), param, ctx)


@click.command(
    "kafka-tool",
    short_help="Run a tool by its name in Kafka, with its options there.",
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
    """Run a tool by its name in Kafka, with its options there.

    For scripts that call kafka-topics.sh and the like where no Kafka is installed; --help behind NAME shows the options. Called without
    NAME it says which there are. The container image has each of them in /opt/kafka/bin, and without .sh in /usr/bin.
    """
    raise SystemExit(run_tool(name, list(arguments)))
