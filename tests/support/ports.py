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
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

_claims: dict[int, socket.socket] = {}  # by process id: a forked child claims a block of its own
_last: dict[int, int] = {}


def free_port() -> int:
    """A port of 127.0.0.1 that no other test gets, not one that this process had lately; where all blocks are taken, any free one."""
    process = os.getpid()
    if process not in _claims:
        claim = _claimed()
        if claim is None:
            return _any_free_port()
        _claims[process] = claim
        _last[process] = 0
    first = _claims[process].getsockname()[1]
    for _ in range(1, BLOCK_PORTS):
        _last[process] = _last[process] % (BLOCK_PORTS - 1) + 1
        port: int = first + _last[process]
        if _is_free(port):
            return port
    return _any_free_port()


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


def _any_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
