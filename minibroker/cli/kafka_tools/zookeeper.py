"""zookeeper-server-start: start scripts for images with ZooKeeper call it. Nothing is kept here: the broker keeps its own metadata.

Its port is open, because some programs wait for it before they take the container for started (Testcontainers for Node). Whoever
connects is turned away at once.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from minibroker.cli.kafka_tools.arguments import UsageError, parser
from minibroker.config import sources


def run(arguments: Sequence[str]) -> int:
    """Keep ZooKeeper's port open until told to stop."""
    made = parser("zookeeper-server-start", "Open ZooKeeper's port. Nobody is served there: no ZooKeeper is needed.")
    made.add_argument("file", metavar="zookeeper.properties", help="Its clientPort is opened; nothing else is read.")
    port = _client_port(made.parse_args(arguments).file)
    signal.signal(signal.SIGTERM, _end)
    with socket.create_server(("", port)) as listening:
        print("no ZooKeeper is needed: minibroker keeps its own metadata", flush=True)
        while True:
            connection, _ = listening.accept()
            connection.close()


def _client_port(file: str) -> int:
    port = sources.from_file(Path(file)).get("clientPort", "").strip()
    if not port.isdecimal() or not 0 < int(port) <= 0xFFFF:
        raise UsageError(f"{file}: clientPort is {f'{port!r}, no port' if port else 'not there'}: write clientPort=2181")
    return int(port)


def _end(number: int, _frame: FrameType | None) -> None:
    """As the first process of a container, too, which ignores what it does not handle."""
    sys.exit(128 + number)
