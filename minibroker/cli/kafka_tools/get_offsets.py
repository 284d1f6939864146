"""kafka-get-offsets: GetOffsetShell, topic:partition:offset."""

from __future__ import annotations

import re
from collections.abc import Sequence

from minibroker.cli.kafka_tools.arguments import UsageError, add_bootstrap, parser


def run(arguments: Sequence[str]) -> int:
    """Done by `minibroker offsets -o shell`, which has GetOffsetShell's options."""
    made = parser("kafka-get-offsets", "An interactive shell for getting topic-partition offsets.")
    add_bootstrap(made, "--broker-list")
    made.add_argument("--topic")
    made.add_argument("--topic-partitions", help="TOPIC:PARTITION,...")
    made.add_argument("--partitions")
    made.add_argument("--time", default="latest")
    made.add_argument("--exclude-internal-topics", action="store_true")
    options = made.parse_args(arguments)
    from minibroker.cli.offsets import offsets  # noqa: PLC0415  behind --help

    command = ["-b", options.bootstrap_server, "-o", "shell", "--time", options.time]
    command += [] if options.exclude_internal_topics else ["--internal"]
    for name in filter(None, (options.topic_partitions or "").split(",")):
        topic, _, partitions = name.partition(":")
        chosen = ["--partitions", _inclusive(partitions)] if partitions else []
        offsets.main([*command, "--topic-pattern", topic, *chosen], standalone_mode=False)
    if not options.topic_partitions:
        command += ["--topic-pattern", options.topic] if options.topic else []
        command += ["--partitions", options.partitions] if options.partitions else []
        offsets.main(command, standalone_mode=False)
    return 0


def _inclusive(partitions: str) -> str:
    """`5`, or `0-2` for 0 and 1, as Kafka has it: our own ranges end with their last number."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", partitions)
    if match is None or (match[2] and int(match[2]) <= int(match[1])):
        raise UsageError(f"--topic-partitions: {partitions} is neither a partition nor a range such as 0-2, which ends before 2")
    return f"{match[1]}-{int(match[2]) - 1}" if match[2] else match[1]
