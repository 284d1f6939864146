"""Admission and idle connections."""

from __future__ import annotations

import logging
import socket

import pytest

from minibroker.clock import ManualClock
from minibroker.server.listener import ConnectionCounts, ConnectionLimits
from tests.server.serving import Client, OnLoop, Script, frame, listening, only_connection, until


def test_idle_connections_are_closed_and_busy_ones_are_not(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock, script = ManualClock(), Script()
        async with listening(script, ConnectionLimits(max_idle_ms=1000), clock) as listener:
            silent, torn, busy, parked = [await Client.connect(listener) for _ in range(4)]
            torn.writer.write(frame(b"never whole")[:-1])
            parked.send(b"fsync")
            busy.send(b"hello")
            await busy.receive()
            await until(lambda: script.waiting and len(listener.connections) == 4)
            for _ in range(5):
                clock.advance(250)
                busy.send(b"again")
                await busy.receive()
            assert await silent.is_closed()
            assert await torn.is_closed()
            assert len(listener.connections) == 2
            script.waiting[0].finish([frame(b"done")])
            assert await parked.receive() == b"done"

    on_loop(main())


def test_a_clock_that_jumps_closes_nothing(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with listening(None, ConnectionLimits(max_idle_ms=1000), clock) as listener:
            client = await Client.connect(listener)
            await until(lambda: listener.connections)
            clock.jump(86_400_000)
            clock.advance(500)
            client.send(b"here")
            assert await client.receive() == b"here"

    on_loop(main())


def test_receive_buffer_shrinks_after_a_large_request(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with listening(None, ConnectionLimits(max_idle_ms=1000), clock) as listener:
            client = await Client.connect(listener)
            client.send(bytes(1_000_000))
            await client.receive()
            connection = only_connection(listener)
            assert connection._buffer.capacity > 1_000_000
            clock.advance(250)
            client.send(b"small")
            await client.receive()
            assert connection._buffer.capacity < 10_000

    on_loop(main())


def test_a_negative_idle_time_keeps_connections_and_gives_their_memory_back(on_loop: OnLoop) -> None:
    async def main() -> None:
        clock = ManualClock()
        async with listening(None, ConnectionLimits(max_idle_ms=-1), clock) as listener:
            client = await Client.connect(listener)
            client.send(bytes(1_000_000))
            await client.receive()
            connection = only_connection(listener)
            assert connection._buffer.capacity > 0
            clock.advance(10_000_000)
            assert connection._buffer.capacity == 0
            client.send(b"still here")
            assert await client.receive() == b"still here"

    on_loop(main())


@pytest.mark.parametrize(
    "limits",
    [
        ConnectionLimits(max_connections=2),
        ConnectionLimits(max_connections_per_ip=2),
        ConnectionLimits(max_connections_per_ip=9, max_connections_per_ip_overrides={"127.0.0.1": 2}),
    ],
    ids=["in all", "per ip", "override"],
)
def test_connection_over_the_limit_is_closed(on_loop: OnLoop, limits: ConnectionLimits, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening(None, limits) as listener:
            first, second = await Client.connect(listener), await Client.connect(listener)
            for client in (first, second):
                client.send(b"hello")
                assert await client.receive() == b"hello"
            third = await Client.connect(listener)
            assert await third.is_closed()
            first.writer.close()
            await until(lambda: len(listener.connections) == 1)
            fourth = await Client.connect(listener)
            fourth.send(b"room again")
            assert await fourth.receive() == b"room again"

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    assert "max.connections" in caplog.text


def test_listeners_share_max_connections(on_loop: OnLoop) -> None:
    async def main() -> None:
        counts = ConnectionCounts()
        limits = ConnectionLimits(max_connections=1)
        async with listening(None, limits, counts=counts) as one, listening(None, limits, counts=counts) as two:
            first = await Client.connect(one)
            first.send(b"hello")
            await first.receive()
            second = await Client.connect(two)
            assert await second.is_closed()

    on_loop(main())


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_no_host_means_every_interface_on_one_port(on_loop: OnLoop) -> None:
    async def main() -> None:
        async with listening(host="") as listener:
            for address in ("127.0.0.1", "::1"):
                client = await Client.connect(listener, address)
                client.send(b"hello")
                assert await client.receive() == b"hello"

    on_loop(main())
