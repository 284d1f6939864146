"""`minibroker kafka-tool`: Kafka's own tools by name, as the container image has them in /opt/kafka/bin."""

from __future__ import annotations

import click

from minibroker.cli.kafka_tools.main import TOOLS, run_tool


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
@click.argument("name", type=click.Choice([*TOOLS, *(f"{tool}.sh" for tool in TOOLS)]), metavar="NAME")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def kafka_tool(name: str, arguments: tuple[str, ...]) -> None:
    """Run a tool by its name in Kafka, with its options there.

    For scripts that call kafka-topics.sh and the like where no Kafka is installed; --help behind NAME shows the options. The container
    image has each of them in /opt/kafka/bin, and without .sh in /usr/bin.
    """
    raise SystemExit(run_tool(name.removesuffix(".sh"), list(arguments)))
