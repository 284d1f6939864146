"""The load generator: every answer is counted once, however its bytes come, and failures of the broker are reported."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest
from pump import Link, LoadError, Pump, call, connect

REQUEST = struct.pack(">i", 4) + b"ping"


def answer(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@contextlib.contextmanager
def serving(reply: Callable[[socket.socket, int], None]) -> Iterator[tuple[str, int]]:
    """A broker that calls `reply` with each connection and the number of the request on it."""

    def serve(connection: socket.socket) -> None:
        number = 0
        with connection, contextlib.suppress(OSError):
            while connection.recv(len(REQUEST), socket.MSG_WAITALL):
                reply(connection, number)
                number += 1

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def pumping(address: tuple[str, int], *, links: int = 2, depth: int = 1, heads_only: bool = False) -> Iterator[Pump]:
    pump = Pump((connect(address) for _ in range(links)), depth=depth, heads_only=heads_only)
    try:
        yield pump
    finally:
        pump.close()


def byte_by_byte(connection: socket.socket, number: int) -> None:
    for byte in answer(b"pong%d" % number):
        connection.sendall(bytes([byte]))


@pytest.mark.parametrize("total", [1, 2, 7, 100])
def test_answers_in_pieces_are_counted_once(total: int) -> None:
    seen: list[tuple[int, bytes]] = []

    def check(link: Link, data: bytearray, start: int, size: int) -> None:
        seen.append((link.number, bytes(data[start : start + size])))

    with serving(byte_by_byte) as address, pumping(address, depth=3) as pump:
        assert pump.run(total, lambda _link, _number: REQUEST, check) > 0
    assert len(seen) == total
    for link in (0, 1):
        bodies = [body for number, body in seen if number == link]
        assert bodies == [b"pong%d" % number for number in range(len(bodies))]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 4095, 4096, 4097, 3_000_000])
@pytest.mark.parametrize("heads_only", [False, True])
def test_answers_of_any_size(size: int, heads_only: bool) -> None:
    body = bytes(number % 251 for number in range(size))
    seen: list[int] = []

    def check(link: Link, data: bytearray, start: int, length: int) -> None:
        looked_at = min(length, 200) if heads_only else length
        assert data[start : start + looked_at] == body[:looked_at]
        seen.append(length)

    with (
        serving(lambda connection, _: connection.sendall(answer(body))) as address,
        pumping(address, heads_only=heads_only) as pump,
    ):
        pump.run(6, lambda _link, _number: REQUEST, check)
        pump.run(3, lambda _link, _number: REQUEST, check)
    assert seen == [size] * 9


@pytest.mark.parametrize("heads_only", [False, True])
def test_closed_connection_is_reported(heads_only: bool) -> None:
    with (
        serving(lambda connection, _: connection.shutdown(socket.SHUT_RDWR)) as address,
        pumping(address, heads_only=heads_only) as pump,
        pytest.raises(LoadError, match="closed the connection"),
    ):
        pump.run(6, lambda _link, _number: REQUEST, lambda *_: None)


def test_an_error_in_an_answer_ends_the_run() -> None:
    def check(_link: Link, data: bytearray, start: int, _size: int) -> None:
        if data[start + 4 : start + 5] == b"3":
            raise LoadError("the third is bad")

    with serving(byte_by_byte) as address, pumping(address) as pump, pytest.raises(LoadError, match="the third is bad"):
        pump.run(100, lambda _link, _number: REQUEST, check)


def test_one_call_takes_one_answer() -> None:
    with serving(byte_by_byte) as address, contextlib.closing(connect(address)) as connection:
        assert [bytes(call(connection, REQUEST)) for _ in range(3)] == [b"pong0", b"pong1", b"pong2"]


def test_two_answers_to_one_call_are_reported() -> None:
    with (
        serving(lambda connection, _: connection.sendall(answer(b"one") + answer(b"two"))) as address,
        contextlib.closing(connect(address)) as connection,
        pytest.raises(LoadError, match="more than one answer"),
    ):
        call(connection, REQUEST)


def test_connection_closed_during_a_call_is_reported() -> None:
    with (
        serving(lambda connection, _: connection.close()) as address,
        contextlib.closing(connect(address)) as connection,
        pytest.raises((LoadError, ConnectionError)),
    ):
        call(connection, REQUEST)
