"""cub: of Confluent's utility belt `kafka-ready`, by which scripts in containers wait for brokers."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from minibroker.cli.kafka_tools.arguments import client_of, parser
from minibroker.client.errors import ClientError, describe
from minibroker.errors import KafkaError

_PAUSE_S = 0.1


def run(arguments: Sequence[str]) -> int:
    """Wait until so many brokers are in the cluster; 1 when they are not in time."""
    made = parser("cub", "Wait for brokers.")
    made.add_argument("command", choices=["kafka-ready"])
    made.add_argument("-b", "--bootstrap-server", required=True)
    made.add_argument("-c", "--config")
    made.add_argument("-s", "--security")
    made.add_argument("expected_brokers", type=int)
    made.add_argument("timeout", type=float, help="Seconds.")
    options = made.parse_args(arguments)
    deadline_s = time.monotonic() + options.timeout
    problem = "no broker answered"
    while True:
        left_s = deadline_s - time.monotonic()
        try:
            with client_of(options, max(1, int(left_s * 1000))) as client:
                there = len(client.metadata([]).brokers)
            if there >= options.expected_brokers:
                return 0
            problem = f"{there} brokers of {options.expected_brokers}"
        except (ClientError, KafkaError) as error:
            problem = describe(error)
        if time.monotonic() >= deadline_s:
            print(f"cub kafka-ready: {problem}", file=sys.stderr)
            return 1
        time.sleep(_PAUSE_S)
