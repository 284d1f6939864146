"""Ports of tests' brokers are nobody else's while a broker is down."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ports

ROOT = Path(__file__).parents[1]
PROGRAM = "from tests.support.ports import free_port; print(*(free_port() for _ in range(3)), flush=True); input()"


@pytest.mark.skipif(
    not ports.EPHEMERAL_RANGE.exists() or ports._first_ephemeral_port() < ports.FIRST_PORT + 2 * ports.BLOCK_PORTS,
    reason="the kernel does not tell its ephemeral range, or it leaves no room for two blocks",
)
def test_processes_get_separate_ports_outside_the_ephemeral_range() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = [int(word) for word in other.stdout.readline().split()]
        ours = [ports.free_port() for _ in range(3)]
        other.communicate("\n")
    assert len({*ours, *theirs}) == 6
    assert {port // ports.BLOCK_PORTS for port in ours}.isdisjoint(port // ports.BLOCK_PORTS for port in theirs)
    assert max(*ours, *theirs) < int(ports.EPHEMERAL_RANGE.read_text().split()[0])


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> int:
    """The first port of this process' block, from which on ports are given out."""
    ports.free_port()  # it has a block
    if os.getpid() not in ports._claims:
        pytest.skip("all blocks are taken")
    monkeypatch.setitem(ports._last, os.getpid(), 0)
    found: int = ports._claims[os.getpid()].getsockname()[1]
    return found


@pytest.fixture
def taken(first: int, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Ports that are not free, for a test to say: all the others are, whatever other tests have left."""
    found: set[int] = set()
    monkeypatch.setattr(ports, "_is_free", lambda port: port not in found and first < port < first + ports.BLOCK_PORTS)
    return found


def test_port_in_use_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not ports._is_free(listener.getsockname()[1])


def test_a_port_that_is_taken_is_passed_over(first: int, taken: set[int]) -> None:
    taken.add(first + 2)
    assert [ports.free_port() for _ in range(2)] == [first + 1, first + 3]


def test_ports_in_a_row_are_all_free_and_of_the_block(first: int, taken: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    taken.add(first + 2)
    assert [ports.free_ports(3) for _ in range(2)] == [first + 3, first + 6]
    assert ports.free_port() == first + 9
    monkeypatch.setitem(ports._last, os.getpid(), ports.BLOCK_PORTS - 3)  # two are left behind it
    assert ports.free_ports(3) == first + 3


def test_where_all_blocks_are_taken_a_row_is_any_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_claims", {})
    monkeypatch.setattr(ports, "_claimed", lambda: None)
    asked: list[int] = []

    def is_free(port: int) -> bool:
        asked.append(port)
        return len(asked) > 2

    monkeypatch.setattr(ports, "_is_free", is_free)
    first = ports.free_ports(3)
    assert asked[2:] == [first + 1, first + 2]
