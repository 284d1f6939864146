"""kafka-server-stop: ends the brokers of this container."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from minibroker.cli.kafka_tools.arguments import parser


def run(arguments: Sequence[str]) -> int:
    """SIGTERM to every broker among the processes that we see; 1 when there is none."""
    parser("kafka-server-stop", "Stop the broker.").parse_args(arguments)
    found = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _is_broker(folder)]
    for number in found:
        os.kill(number, signal.SIGTERM)
    if not found:
        print("No kafka server to stop", file=sys.stderr)
    return 0 if found else 1


def _is_broker(folder: Path) -> bool:
    try:
        words = (folder / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return folder.name != str(os.getpid()) and any(
        before.endswith(b"minibroker") and word in {b"container", b"serve"} for before, word in pairwise(words)
    )
