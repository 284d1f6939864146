"""Ports that stay free until a test's broker binds them, and between the death of that broker and its next start.

The kernel gives whoever binds port 0, and each client that connects, a port of its ephemeral range: any port of that range
that nobody holds for a moment may be somebody else's a moment later, a broker of another test for instance. So these
lie below it, and each process has a block of them, which it claims by listening on the block's first port.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

FIRST_PORT = 10_000  # well-known ones, such as 9092, lie below
BLOCK_PORTS = 500
LAST_PORT = 65_535
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_claims: dict[int, socket.socket] = {}  # by process id: a forked child claims a block of its own
_last: dict[int, int] = {}


def free_port() -> int:
    """A port of 127.0.0.1 that no other test gets, not one that this process had lately; where all blocks are taken, any free one."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many such ports in a row, as a cluster's brokers have them."""
    process = os.getpid()
    if process not in _claims:
        claim = _claimed()
        if claim is None:
            return _any_free_ports(count)
        _claims[process] = claim
        _last[process] = 0
    first: int = _claims[process].getsockname()[1]
    row: list[int] = []
    for _ in range(2 * BLOCK_PORTS):  # a row may begin anywhere in the block, and does not go on behind its end
        _last[process] = _last[process] % (BLOCK_PORTS - 1) + 1
        port = first + _last[process]
        if row and port != row[-1] + 1:
            row = []
        row = [*row, port] if _is_free(port) else []
        if len(row) == count:
            return row[0]
    return _any_free_ports(count)


def _claimed() -> socket.socket | None:
    blocks = list(range(FIRST_PORT, _first_ephemeral_port() - BLOCK_PORTS + 1, BLOCK_PORTS))
    random.SystemRandom().shuffle(blocks)
    for first in blocks:
        try:
            return socket.create_server(("127.0.0.1", first))
        except OSError:
            continue
    return None


def _first_ephemeral_port() -> int:
    try:
        return int(EPHEMERAL_RANGE.read_text().split()[0])
    except OSError:
        return FIRST_PORT  # nothing is known of it, so no block is outside of it


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _any_free_ports(count: int) -> int:
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        if port + count <= LAST_PORT + 1 and all(_is_free(port + number) for number in range(1, count)):
            return port
