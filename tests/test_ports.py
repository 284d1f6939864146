"""Ports of tests' brokers are nobody else's while a broker is down."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports

ROOT = Path(__file__).parents[1]
PROGRAM = "from tests.support.ports import free_port; print(*(free_port() for _ in range(3)), flush=True); input()"


@pytest.mark.skipif(not ports.EPHEMERAL_RANGE.exists(), reason="the kernel does not tell its ephemeral range")
def test_processes_have_ports_of_their_own_that_the_kernel_gives_to_nobody() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = [int(word) for word in other.stdout.readline().split()]
        ours = [ports.free_port() for _ in range(3)]
        other.communicate("\n")
    assert len({*ours, *theirs}) == 6
    assert {port // ports.BLOCK_PORTS for port in ours}.isdisjoint(port // ports.BLOCK_PORTS for port in theirs)
    assert max(*ours, *theirs) < int(ports.EPHEMERAL_RANGE.read_text().split()[0])


def test_a_port_that_is_taken_is_passed_over() -> None:
    taken = ports.free_port() + 1
    with socket.create_server(("127.0.0.1", taken)):
        assert ports.free_port() == taken + 1
