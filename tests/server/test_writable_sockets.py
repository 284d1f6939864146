"""Full sockets: each that takes bytes again, or is closed by its client, is reported once."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import tempfile
from collections.abc import Callable
from functools import partial

from minibroker.server.writable_sockets import WritableSockets
from tests.server.serving import OnLoop, until

RESET = struct.pack("ii", 1, 0)  # SO_LINGER


def new_sockets() -> WritableSockets:
    loop = asyncio.get_running_loop()

    def at_end_of_turn(callback: Callable[[], None]) -> None:
        loop.call_soon(callback)

    return WritableSockets(at_end_of_turn)


def connected() -> tuple[socket.socket, socket.socket]:
    """Return a full socket that does not block, and the one of its client."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    fill(ours)
    return ours, client


def fill(ours: socket.socket) -> None:
    ours.setblocking(False)
    try:
        while True:
            ours.send(bytes(1 << 20))
    except BlockingIOError:
        pass


def drain(client: socket.socket) -> None:
    client.setblocking(False)
    try:
        while client.recv(1 << 20):
            pass
    except BlockingIOError:
        pass


def test_reports_once_when_the_socket_takes_bytes(on_loop: OnLoop) -> None:
    async def main() -> None:
        sockets, calls = new_sockets(), list[str]()
        ours, client = socket.socketpair()  # of TCP, the system can take more bytes from a full socket later
        fill(ours)
        for number in (1, 2):
            assert sockets.wait(ours.fileno(), lambda: calls.append("called"))
            await asyncio.sleep(0.01)
            assert len(calls) == number - 1
            while len(calls) < number:
                drain(client)
                await asyncio.sleep(0)
            await asyncio.sleep(0.01)  # it is writable all the time, and not reported again
            assert len(calls) == number
            fill(ours)
        sockets.close()
        ours.close()
        client.close()

    on_loop(main())


def test_reports_a_reset(on_loop: OnLoop) -> None:
    async def main() -> None:
        sockets, calls = new_sockets(), list[str]()
        ours, client = connected()
        sockets.wait(ours.fileno(), lambda: calls.append("called"))
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.close()
        await until(lambda: calls)
        ours.close()
        sockets.close()

    on_loop(main())


def test_a_descriptor_that_another_socket_has_now(on_loop: OnLoop) -> None:
    async def main() -> None:
        sockets, calls = new_sockets(), list[str]()
        ours, client = connected()
        others, other_client = connected()
        assert sockets.wait(ours.fileno(), partial(calls.append, "first"))
        sockets.forget(ours.fileno())
        os.dup2(others.fileno(), ours.fileno())  # closes the first in the same step: nothing else can take its descriptor
        assert sockets.wait(ours.fileno(), partial(calls.append, "second"))
        while not calls:
            drain(other_client)
            await asyncio.sleep(0)
        assert calls == ["second"]
        sockets.close()
        for each in (ours, client, others, other_client):
            each.close()

    on_loop(main())


def test_one_callback_that_raises_stops_no_other(on_loop: OnLoop) -> None:
    async def main() -> None:
        sockets, calls, errors = new_sockets(), list[int](), list[object]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))

        def call(number: int) -> None:
            calls.append(number)
            raise KeyError(number)

        pairs = [connected() for _ in range(3)]
        for number, (ours, _) in enumerate(pairs):
            sockets.wait(ours.fileno(), partial(call, number))
        while len(calls) < 3:
            for _, client in pairs:
                drain(client)
            await asyncio.sleep(0)
        assert sorted(calls) == [0, 1, 2]
        assert len(errors) == 3
        for pair in pairs:
            for each in pair:
                each.close()
        sockets.close()

    on_loop(main())


def test_what_cannot_be_watched_is_refused(on_loop: OnLoop) -> None:
    async def main() -> None:
        sockets = new_sockets()
        with tempfile.TemporaryFile() as file:
            assert not sockets.wait(file.fileno(), lambda: None)
        sockets.close()
        sockets.close()

    on_loop(main())
