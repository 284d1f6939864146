"""kafka-server-start: a broker with the properties of a file, under the image's conventions."""

from __future__ import annotations

from collections.abc import Sequence

from minibroker.cli.kafka_tools.arguments import parser


def run(arguments: Sequence[str]) -> int:
    """Serve until told to stop."""
    made = parser("kafka-server-start", "Start a broker.")
    made.add_argument("-daemon", action="store_true", help="Refused: the broker of a container is its first process.")
    made.add_argument("file", metavar="server.properties")
    made.add_argument("--override", action="append", default=[], metavar="NAME=VALUE")
    options = made.parse_args(arguments)
    if options.daemon:
        made.error("-daemon is not served: put the command into the background with &")
    from minibroker.cli.container.command import container  # noqa: PLC0415  behind --help

    command = ["--config", options.file]
    for override in options.override:
        command += ["--set", override]
    container.main(command, prog_name="kafka-server-start", standalone_mode=False)
    return 0
