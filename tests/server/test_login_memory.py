"""The memory of connections whose clients have not logged in: what is counted, and which connection is closed."""

from __future__ import annotations

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.server.login_memory import LARGE, LoginMemory, Stage

CONNECTED, OPEN, HANDSHAKE = Stage.CONNECTED, Stage.OPEN, Stage.HANDSHAKE


class Waiting:
    """A connection that notes when it is closed."""

    def __init__(self, closed: list[Waiting], host: str = "10.0.0.1") -> None:
        self.info = ConnectionInfo("CLIENTS", host)
        self._closed = closed

    def abort(self) -> None:
        self._closed.append(self)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.ms = 5.0

    def __call__(self) -> float:
        return self.ms


def test_a_connection_counts_by_its_stage_until_it_is_forgotten() -> None:
    memory, connection = LoginMemory(), Waiting([])
    for stage in (CONNECTED, HANDSHAKE, OPEN):
        memory.enter(connection, stage)
        assert memory.size == stage
        memory.holds(connection, 100)
        assert memory.size == stage + 100
    memory.holds(connection, LARGE + 1)
    assert memory.size == OPEN + LARGE + 1
    memory.holds(connection, 0)
    assert memory.size == OPEN
    memory.forget(connection)
    memory.forget(connection)
    memory.holds(connection, 1000)
    assert memory.size == 0


def test_a_flood_of_handshakes_closes_the_oldest_handshakes_only() -> None:
    closed: list[Waiting] = []
    memory = LoginMemory(10 * HANDSHAKE)
    idle, logging_in = Waiting(closed), Waiting(closed)
    memory.enter(idle, CONNECTED)
    memory.enter(logging_in, OPEN)
    flood = [Waiting(closed) for _ in range(100)]
    for each in flood:
        memory.enter(each, HANDSHAKE)
        assert memory.size <= 10 * HANDSHAKE
    assert closed == flood[: len(closed)]
    assert len(flood) - len(closed) == (10 * HANDSHAKE - CONNECTED - OPEN) // HANDSHAKE


def test_a_flood_of_silent_logins_closes_no_handshake() -> None:
    closed: list[Waiting] = []
    memory = LoginMemory(10 * HANDSHAKE)
    shaking_hands = Waiting(closed)
    memory.enter(shaking_hands, HANDSHAKE)
    flood = [Waiting(closed) for _ in range(100)]
    for each in flood:
        memory.enter(each, OPEN)
    assert closed == flood[: len(closed)]
    assert len(flood) - len(closed) == 9 * HANDSHAKE // OPEN


def test_a_connection_that_goes_on_is_not_the_oldest_any_more() -> None:
    closed: list[Waiting] = []
    memory = LoginMemory(2 * OPEN + HANDSHAKE)
    honest, silent, new = (Waiting(closed) for _ in range(3))
    memory.enter(honest, HANDSHAKE)
    memory.enter(silent, OPEN)
    memory.enter(honest, OPEN)
    for _ in range(5):
        memory.enter(new, HANDSHAKE)
    other = Waiting(closed)
    memory.enter(other, HANDSHAKE)
    assert closed == [new]


def test_bytes_that_trickle_in_do_not_make_a_request_younger() -> None:
    closed: list[Waiting] = []
    memory = LoginMemory(10 * LARGE)
    trickling, other = Waiting(closed), Waiting(closed)
    memory.enter(trickling, CONNECTED)
    memory.holds(trickling, 2 * LARGE)
    memory.enter(other, CONNECTED)
    memory.holds(other, 2 * LARGE)
    memory.holds(trickling, 3 * LARGE)
    memory.holds(other, 7 * LARGE)
    assert closed == [trickling]


def test_large_requests_close_no_client_whose_requests_are_small() -> None:
    closed: list[Waiting] = []
    memory = LoginMemory(50 * LARGE)
    honest = Waiting(closed)
    memory.enter(honest, CONNECTED)
    memory.holds(honest, 4096)
    flood = [Waiting(closed) for _ in range(20)]
    for each in flood:
        memory.enter(each, CONNECTED)
        memory.holds(each, 10 * LARGE)
    assert closed == flood[:16]


def test_one_line_a_second_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    memory = LoginMemory(HANDSHAKE, clock)
    for _ in range(5):
        memory.enter(Waiting([]), HANDSHAKE)
    clock.ms += 1000
    memory.enter(Waiting([], "10.0.0.2"), HANDSHAKE)
    first, last = (record.getMessage() for record in caplog.records)
    assert first == (
        "closing the connection of 10.0.0.1 on CLIENTS: clients that have not logged in use more than 61,440 bytes, "
        "and it is the oldest with an unfinished TLS handshake"
    )
    assert last.endswith("an unfinished TLS handshake (3 more were closed since the last line)")
