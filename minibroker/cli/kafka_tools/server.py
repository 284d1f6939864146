"""kafka-server-start, kafka-server-stop, kafka-storage and zookeeper-server-start, for scripts in containers.

Start scripts for images with ZooKeeper call zookeeper-server-start. It stores nothing, because the broker keeps its own
metadata. It only opens ZooKeeper's port, because some programs wait for that (Testcontainers for Node), and closes each
connection immediately. With -daemon, a child process keeps the port open after the command has exited with 0.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType

from minibroker.cli.container.settings import image_environment
from minibroker.cli.kafka_tools.arguments import UsageError, parser, properties
from minibroker.cli.storage import storage_format
from minibroker.cli.storage_info import info
from minibroker.config import sources


def run_server_start(arguments: Sequence[str]) -> int:
    """Start a broker with the properties of a file and the image's conventions, and wait until a signal stops it."""
    tool_parser = parser("kafka-server-start", "Start a broker.")
    tool_parser.add_argument("-daemon", action="store_true", help="Not supported: the broker is the first process of its container.")
    tool_parser.add_argument("file", metavar="server.properties")
    tool_parser.add_argument("--override", action="append", default=[], metavar="NAME=VALUE")
    options = tool_parser.parse_args(arguments)
    if options.daemon:
        tool_parser.error("-daemon is not supported: run the command in the background with &")
    from minibroker.cli.container.command import container  # noqa: PLC0415  --help does not need it

    command = ["--config", options.file]
    for override in options.override:
        command += ["--set", override]
    container.main(command, prog_name="kafka-server-start", standalone_mode=False)
    return 0


def run_zookeeper_start(arguments: Sequence[str]) -> int:
    """Keep ZooKeeper's port open until a signal stops it."""
    tool_parser = parser("zookeeper-server-start", "Open ZooKeeper's port and close all connections: no ZooKeeper is needed.")
    tool_parser.add_argument("file", metavar="zookeeper.properties", help="The file with clientPort; nothing else is read.")
    tool_parser.add_argument("-daemon", action="store_true", help="Return as soon as the port is open.")
    tool_parser.add_argument("--override", action="append", default=[], metavar="NAME=VALUE", help="Override a property of the file.")
    options = tool_parser.parse_args(arguments)
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
    """Fork; return True in the child, which has its own session and no input or output, so that no process waits for it.

    The listening socket is open in both processes, so the port is never closed.
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
        raise UsageError(f"{file}: clientPort is {f'{port!r}, which is not a port' if port else 'missing'}: write clientPort=2181")
    return int(port)


def _end(number: int, _frame: FrameType | None) -> None:
    """Exit; without a handler, the first process of a container ignores SIGTERM."""
    sys.exit(128 + number)


def run_server_stop(arguments: Sequence[str]) -> int:
    """Send SIGTERM to all visible broker processes; 1 if there is none."""
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


def run_storage(arguments: Sequence[str]) -> int:
    """Run `random-uuid`, `format` or `info` of Kafka's StorageTool."""
    tool_parser = parser("kafka-storage", "The Kafka storage tool.")
    tool_parser.add_argument("command", choices=["random-uuid", "format", "info"])
    tool_parser.add_argument("-t", "--cluster-id")
    tool_parser.add_argument("-c", "--config", metavar="FILE")
    tool_parser.add_argument("-g", "--ignore-formatted", action="store_true")
    tool_parser.add_argument("-s", "--standalone", action="store_true", help="Accepted, without effect.")
    tool_parser.add_argument("-N", "--no-initial-controllers", action="store_true", help="Accepted, without effect.")
    tool_parser.add_argument("-f", "--feature", action="append", default=[])
    tool_parser.add_argument("-S", "--add-scram", action="append", default=[], metavar="MECHANISM=[...]")
    options = tool_parser.parse_args(arguments)
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
