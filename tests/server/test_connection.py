"""One connection over a real socket, on both loops: order, stepping aside, back-pressure, the end."""

from __future__ import annotations

import asyncio
import logging

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.server.connection import WRITE_HIGH_WATER, Connection
from minibroker.server.listener import ConnectionLimits
from minibroker.wire.schema import Buffer
from tests.server.serving import Client, OnLoop, Script, frame, listening, only_connection, until


def test_byte_by_byte(on_loop: OnLoop) -> None:
    async def main() -> None:
        async with listening() as listener:
            client = await Client.connect(listener)
            for byte in frame(b"slowly"):
                client.writer.write(bytes([byte]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert await client.receive() == b"slowly"

    on_loop(main())


def test_pipelined_requests_are_answered_in_order(on_loop: OnLoop) -> None:
    async def main() -> None:
        async with listening() as listener:
            client = await Client.connect(listener)
            bodies = [b"%d" % number for number in range(5000)]
            client.send(*bodies)
            assert [await client.receive() for _ in bodies] == bodies

    on_loop(main())


def test_one_that_pipelines_much_lets_others_have_their_turn(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            greedy, other = await Client.connect(listener), await Client.connect(listener)
            await until(lambda: len(listener.connections) == 2)
            greedy.send(bytes(100_000))  # so that its buffer holds all that follows
            await greedy.receive()
            greedy.send(*[b"more"] * 3000)
            other.send(b"hello")
            assert await other.receive() == b"hello"
            assert script.seen.index(b"hello") < 300
            assert [await greedy.receive() for _ in range(3000)] == [b"more"] * 3000

    on_loop(main())


def test_answers_are_sent_in_request_order(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync 1", b"two", b"fsync 3", b"silent", b"four")
            await until(lambda: len(script.seen) == 5)
            first, third = script.waiting
            third.finish([frame(b"3")])
            first.finish([frame(b"1")])
            assert [await client.receive() for _ in range(4)] == [b"1", b"two", b"3", b"four"]

    on_loop(main())


@pytest.mark.parametrize("size", [100, 100_000, 1_000_000])
def test_a_request_in_slices_keeps_its_bytes_and_its_connection_serves_nothing_else(on_loop: OnLoop, size: int) -> None:
    """Small frames are in the area that all connections share."""

    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            clients = [await Client.connect(listener) for _ in range(3)]
            bodies = [b"slice %d" % number + b"x" * size for number in range(3)]
            for client, body in zip(clients, bodies, strict=True):
                client.send(body, b"second")
            await until(lambda: len(script.waiting) == 3)
            other = await Client.connect(listener)
            for number in range(3):
                other.send(b"%d" % number * size)
                await other.receive()
            assert b"second" not in script.seen
            for waiting in script.waiting:
                waiting.finish([frame(bytes(waiting.request))])
            for client, body in zip(clients, bodies, strict=True):
                number = int(body[6:7])
                assert await client.receive() == body, number
                assert await client.receive() == b"second"

    on_loop(main())


def test_new_connection_does_not_overwrite_a_request_decoded_in_slices(on_loop: OnLoop) -> None:
    """The loop makes the protocol first and calls `connection_made` in a later turn."""

    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            late = Connection(listener)
            client = await Client.connect(listener)
            client.send(b"slice " + b"x" * 100, b"second")
            await until(lambda: script.waiting)

            async def send(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(frame(b"y" * 200))
                await until(lambda: len(script.seen) == 2)
                writer.close()

            peer = await asyncio.start_server(send, "127.0.0.1", 0)
            await asyncio.get_running_loop().create_connection(lambda: late, *peer.sockets[0].getsockname())
            await until(lambda: len(script.seen) == 2)
            assert bytes(script.waiting[0].request) == b"slice " + b"x" * 100
            script.waiting[0].finish([frame(b"done")])
            assert [await client.receive(), await client.receive()] == [b"done", b"second"]
            peer.close()

    on_loop(main())


def test_a_request_in_slices_is_cancelled_with_its_connection(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"slice")
            await until(lambda: script.waiting)
            for connection in listener.connections:
                connection.abort()
            await until(lambda: not listener.connections)
            assert script.waiting[0].is_cancelled

    on_loop(main())


def test_parked_request_steps_aside_for_the_next_one(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client, other = await Client.connect(listener), await Client.connect(listener)
            client.send(b"park 1")
            await until(lambda: script.seen)
            other.send(b"elsewhere")
            assert await other.receive() == b"elsewhere"
            assert not script.waiting[0].is_done
            client.send(b"next")
            assert [await client.receive(), await client.receive()] == [b"aside park 1", b"next"]
            client.send(b"park 2", b"park 3", b"last")
            assert [await client.receive() for _ in range(3)] == [b"aside park 2", b"aside park 3", b"last"]

    on_loop(main())


def test_queued_answers_are_counted(on_loop: OnLoop) -> None:
    """Fetches step aside for each other behind a Produce that waits for its fsync: their answers must not pile up without a bound."""

    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            count, size = 40, 100_000
            client.send(b"fsync", *([b"park" + bytes(size)] * count))
            await until(lambda: bool(listener.connections))
            connection = only_connection(listener)
            await until(lambda: not connection._is_reading)
            assert len(script.seen) < 10
            assert connection._queued_size < WRITE_HIGH_WATER + 2 * size
            script.waiting[0].finish([frame(b"synced")])
            assert await client.receive() == b"synced"
            for _ in range(count - 1):
                assert len(await client.receive()) == len(b"aside park") + size
            assert connection._queued_size == 0

    on_loop(main())


@pytest.mark.usefixtures("writelines")
def test_client_that_does_not_read_is_paused(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket transport
            count, size = 200, 1 << 20
            client.send(*([b"big %d" % size] * count))
            connection = only_connection(listener)
            await until(lambda: not connection._is_reading)
            for _ in range(50):
                await asyncio.sleep(0)
            held_at = len(script.seen)
            assert held_at < 20  # what the sockets' buffers take, and one answer more
            transport = connection._transport
            assert transport is not None
            assert transport.get_write_buffer_size() <= WRITE_HIGH_WATER + size + 4
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
            for _ in range(count):
                assert len(await client.receive()) == size
            assert script.seen == [b"big %d" % size] * count

    on_loop(main())


def test_many_waiting_requests_hold_the_client(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script, ConnectionLimits(queued_max_requests=3)) as listener:
            client = await Client.connect(listener)
            client.send(*[b"fsync %d" % number for number in range(5)])
            await until(lambda: len(script.seen) == 3)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(script.seen) == 3
            for number in range(5):
                await script.wait_for(number)
                script.waiting[number].finish([frame(b"%d" % number)])
            assert [await client.receive() for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]

    on_loop(main())


def test_paused_request_is_not_served_reentrantly(on_loop: OnLoop) -> None:
    class Ending(Script):
        """`end` answers what waits."""

        is_busy = False

        def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | Delayed:
            assert not self.is_busy
            self.is_busy = True
            if bytes(request) == b"end":
                self.waiting[0].finish([frame(b"synced")])
            self.is_busy = False
            return super().dispatch(connection, request)

    async def main() -> None:
        script = Ending()
        async with listening(script, ConnectionLimits(queued_max_requests=1)) as listener:
            client, other = await Client.connect(listener), await Client.connect(listener)
            client.send(b"fsync", b"held")
            await script.wait_for(0)
            other.send(b"end")
            assert [await client.receive() for _ in range(2)] == [b"synced", b"held"]
            assert await other.receive() == b"end"

    on_loop(main())


def test_large_queued_answers_pause_the_client(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", *[b"big 400000"] * 10)
            await until(lambda: listener.connections)
            connection = only_connection(listener)
            await until(lambda: not connection._is_reading)
            assert len(script.seen) == 3
            script.waiting[0].finish([frame(b"synced")])
            assert await client.receive() == b"synced"
            for _ in range(10):
                assert len(await client.receive()) == 400_000

    on_loop(main())


@pytest.mark.parametrize(
    ("first", "looks_like"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (bytes.fromhex("1603010200010001fc0303"), "TLS"),
        (b"\xff\xff\xff\xff", "frame size -1"),
        (b"\x00\x00\x00\x00", "frame size 0"),
        (b"\x7f\xff\xff\xff", "frame size 2147483647"),
    ],
    ids=["http", "tls", "-1", "0", "2^31-1"],
)
def test_invalid_frame_closes_only_its_connection(on_loop: OnLoop, first: bytes, looks_like: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with listening() as listener:
            client, other = await Client.connect(listener), await Client.connect(listener)
            client.send(b"fine")
            assert await client.receive() == b"fine"
            client.writer.write(first)
            assert await client.is_closed()
            other.send(b"unharmed")
            assert await other.receive() == b"unharmed"

    with caplog.at_level(logging.WARNING):
        on_loop(main())
    (line,) = [record.getMessage() for record in caplog.records]
    assert looks_like in line


def test_requests_before_a_bad_one_are_answered(on_loop: OnLoop, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"good", b"fsync", b"bad", b"never seen")
            assert await client.receive() == b"good"
            script.waiting[0].finish([frame(b"synced")])
            assert await client.receive() == b"synced"
            assert await client.is_closed()
            assert script.seen == [b"good", b"fsync", b"bad"]

    on_loop(main())
    assert [record.getMessage() for record in caplog.records if "bad request" in record.getMessage()]


def test_an_answer_that_cannot_be_given_closes(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"behind")
            await until(lambda: len(script.seen) == 2)
            script.waiting[0].finish(None)
            assert await client.reader.read() == b"", "the answer behind it would be taken for its own"
            assert await client.is_closed()

    on_loop(main())


def test_disconnect_cancels_pending_requests(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"park")
            await until(lambda: script.waiting)
            client.writer.close()
            await until(lambda: script.waiting[0].is_cancelled)
            assert not listener.connections

    on_loop(main())


def test_close_answers_received_requests_first(on_loop: OnLoop) -> None:
    async def main() -> None:
        script = Script()
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"park")
            await until(lambda: len(script.seen) == 2)
            connection = only_connection(listener)
            connection.close()
            client.send(b"too late")
            script.waiting[0].finish([frame(b"synced")])
            assert [await client.receive(), await client.receive()] == [b"synced", b"aside park"]
            assert await client.is_closed()
            assert len(script.seen) == 2

    on_loop(main())
