"""kafka-storage: prepare a cluster's id and directories before its first start, for start scripts of containers.

The broker starts with the cluster id of the environment variable CLUSTER_ID, so CLUSTER_ID wins over -t. With it `format` does nothing
without --add-scram, because the broker formats its directories itself.
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Sequence
from pathlib import Path

from minibroker.cli.container.settings import image_environment
from minibroker.cli.kafka_tools.arguments import UsageError, parser
from minibroker.cli.storage import storage_format
from minibroker.cli.storage_info import info
from minibroker.config import sources


def run(arguments: Sequence[str]) -> int:
    """Run `random-uuid`, `format` or `info`."""
    made = parser("kafka-storage", "The Kafka storage tool.")
    made.add_argument("command", choices=["random-uuid", "format", "info"])
    made.add_argument("-t", "--cluster-id")
    made.add_argument("-c", "--config", metavar="FILE")
    made.add_argument("-g", "--ignore-formatted", action="store_true")
    made.add_argument("-s", "--standalone", action="store_true", help="As it is always.")
    made.add_argument("-N", "--no-initial-controllers", action="store_true", help="As it is always.")
    made.add_argument("-f", "--feature", action="append", default=[])
    made.add_argument("-S", "--add-scram", action="append", default=[], metavar="MECHANISM=[...]")
    options = made.parse_args(arguments)
    if options.command == "random-uuid":
        print(_random_id())
        return 0
    if options.config is None:
        raise UsageError("kafka-storage: --config must be specified")
    from_file = sources.from_file(Path(options.config))
    os.environ.update(image_environment(os.environ, from_file, None))
    if options.command == "info":
        info.main(["--config", options.config], prog_name="kafka-storage info", standalone_mode=False)
    elif os.environ.get("CLUSTER_ID") and not options.add_scram:
        print(f"The broker formats its directories itself when it starts, for cluster {os.environ['CLUSTER_ID']} (CLUSTER_ID).")
    else:
        command = ["--config", options.config, *(["--ignore-formatted"] if options.ignore_formatted else [])]
        cluster_id = os.environ.get("CLUSTER_ID") or options.cluster_id
        command += ["--cluster-id", cluster_id] if cluster_id else []
        for user in options.add_scram:
            command += ["--add-scram", user]
        for feature in options.feature:
            command += ["--feature", feature]
        storage_format.main(command, prog_name="kafka-storage format", standalone_mode=False)
    return 0


def _random_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
