"""`minibroker kafka-tool`: Kafka's tools by name, which the container image has in /opt/kafka/bin."""

from __future__ import annotations

from typing import Any

import click

from minibroker.cli.kafka_tools.main import TOOLS, run_tool


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
