"""zookeeper-server-start: start scripts for images with ZooKeeper call it. Nothing is kept here: the broker keeps its own metadata.

Its port is open, because some programs wait for it before they take the container for started (Testcontainers for Node). Whoever
connects is turned away at once. With -daemon a process of its own keeps the port, when the command has ended with 0.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from minibroker.cli.kafka_tools.arguments import UsageError, parser, properties
from minibroker.config import sources


def run(arguments: Sequence[str]) -> int:
    """Keep ZooKeeper's port open until told to stop."""
    made = parser("zookeeper-server-start", "Open ZooKeeper's port. Nobody is served there: no ZooKeeper is needed.")
    made.add_argument("file", metavar="zookeeper.properties", help="Its clientPort is opened; nothing else is read.")
    made.add_argument("-daemon", action="store_true", help="Return as soon as the port is open.")
    made.add_argument("--override", action="append", default=[], metavar="NAME=VALUE", help="Over what the file says.")
    options = made.parse_args(arguments)
    port = _client_port(options.file, properties(options.override))
    signal.signal(signal.SIGTERM, _end)
    with socket.create_server(("", port)) as listening:
        print("no ZooKeeper is needed: minibroker keeps its own metadata", flush=True)
        if options.daemon and not _is_detached():
            return 0
        while True:
            connection, _ = listening.accept()
            connection.close()


def _is_detached() -> bool:
    """Fork: true in the new process, which has a session of its own, and neither input nor output: nobody waits for its end.

    What listens is open in both: there is no moment without the port.
    """
    if os.fork():
        return False
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    return True


def _client_port(file: str, overrides: Mapping[str, str]) -> int:
    port = ({**sources.from_file(Path(file)), **overrides}).get("clientPort", "").strip()
    if not port.isdecimal() or not 0 < int(port) <= 0xFFFF:
        raise UsageError(f"{file}: clientPort is {f'{port!r}, no port' if port else 'not there'}: write clientPort=2181")
    return int(port)


def _end(number: int, _frame: FrameType | None) -> None:
    """As the first process of a container, too, which ignores what it does not handle."""
    sys.exit(128 + number)
