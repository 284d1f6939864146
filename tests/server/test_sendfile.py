"""Answers with slices of files, over a real socket, on both loops: every byte arrives, in order, whatever the client and the files do.
All is the same whether the loop sends or threads (tests/server/test_sender_threads.py has what only they can do).

A client that does not read its answers costs no memory for them: they stay in their files.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import select
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.server import file_output
from minibroker.server import listener as listener_module
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionLimits, Listener
from minibroker.server.sender_threads import SenderThreads
from minibroker.server.writable_sockets import WritableSockets
from minibroker.storage.file_slice import PIECE_SIZE, FileSlice
from minibroker.storage.files import APPEND, RealFiles
from minibroker.wire.schema import Buffer
from tests.server.serving import Client, OnLoop, Script, frame, listening, only_connection, until

SIZE = 5_000_000
NO_DESCRIPTOR = 1 << 20
DATA = random.Random(1).randbytes(SIZE)


class Always(SenderThreads):
    """Send every slice in a thread, not only where it pays."""

    def __init__(self, count: int = 2) -> None:
        super().__init__(count)

    def _pays(self, chunk: FileSlice, descriptor: int) -> bool:
        return True


@pytest.fixture(autouse=True, params=["loop", "threads"])
def sender(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the loop send in one run, and threads in another."""
    if request.param == "loop":
        yield
        return
    made: list[Always] = []

    def always() -> Always:
        made.append(Always())
        return made[-1]

    monkeypatch.setattr(listener_module, "SenderThreads", always)
    monkeypatch.setattr(file_output, "THREAD_SIZE", 1)
    yield
    assert made
    for each in made:
        assert (each._queued, each._queue) == (0, None)


class Counting(RealFiles):
    """Counts the bytes that sendfile took, and those that were read into memory."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.read = 0
        self.send_error = 0
        self.can_read = True

    def read_at(self, descriptor: int, size: int, position: int, /) -> bytes:
        if not self.can_read:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = os.pread(descriptor, size, position)
        self.read += len(data)
        return data

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:  # type: ignore[override]  # as RealFiles
        if self.send_error:
            raise OSError(self.send_error, os.strerror(self.send_error))
        sent = os.sendfile(socket_descriptor, descriptor, position, size)
        self.sent += sent
        return sent


class Slices(Script):
    """`slice A B` is answered with a piece of a file between two words; after `wait` answers queue."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / "00000000000000000000.log"
        self.path.write_bytes(DATA)
        self.files = Counting()
        self.handle = self.files.handles.handle(str(self.path), APPEND)
        self.errors: list[OSError] = []
        self.front = b""  #: sent first

    def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | Delayed:
        body = bytes(request)
        if not body.startswith(b"slice"):
            return super().dispatch(connection, request)
        self.seen.append(body)
        start, size = map(int, body.split()[1:])
        piece = FileSlice(self.files, self.handle, start, size)
        piece.on_failure = self.errors.append
        return [struct.pack(">i", len(self.front) + 12 + size) + self.front + b"before", piece, b"behind"]  # type: ignore[list-item]  # as Fetch answers


def expected(start: int, size: int) -> bytes:
    return b"before" + DATA[start : start + size] + b"behind"


def test_pipelined_slices_arrive_in_order(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            pieces = [(1000 * number, 300_000 + number) for number in range(40)]
            client.send(b"hello", *[b"slice %d %d" % piece for piece in pieces], b"bye")
            assert await client.receive() == b"hello"
            for piece in pieces:
                assert await client.receive() == expected(*piece)
            assert await client.receive() == b"bye"
            assert script.files.sent > 0

    on_loop(main())


def pause(client: Client) -> None:
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads


def resume(client: Client) -> None:
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above


async def stall(listener: Listener, client: Client, *requests: bytes) -> Connection:
    """Send requests whose answers the client does not read, until the broker holds the client."""
    pause(client)
    client.send(*requests)
    await until(lambda: len(listener.connections) == 1)
    connection = only_connection(listener)
    await until(lambda: connection._rest is not None and connection._rest._sending is None and not connection._is_reading)
    return connection


def open_descriptors(path: Path) -> int:
    return sum(link.resolve() == path for link in Path("/proc/self/fd").iterdir())


@pytest.mark.usefixtures("writelines")
def test_nothing_is_tried_again_while_bytes_before_a_slice_are_unread(
    on_loop: OnLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        script.front = bytes(20_000_000)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            tries = 0

            def count(_: Connection) -> None:
                nonlocal tries
                tries += 1
                send_on(_)

            send_on = Connection._send_on
            monkeypatch.setattr(Connection, "_send_on", count)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            for _ in range(100):
                await asyncio.sleep(0)
            assert tries < 5
            resume(client)
            assert await client.receive() == script.front + expected(0, SIZE)

    on_loop(main())


def test_unread_bytes_stay_in_the_file(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            connection = await stall(listener, client, *[b"slice 0 %d" % SIZE] * 20)
            transport, rest = connection._transport, connection._rest
            assert transport is not None
            assert rest is not None
            assert transport.get_write_buffer_size() + rest.memory_size <= 100
            assert script.files.read == 2 * len(script.seen)  # the first and the last byte of each slice
            assert len(script.seen) < 5
            script.path.unlink()
            resume(client)
            for _ in range(20):
                assert await client.receive() == expected(0, SIZE)
            assert script.files.read == 2 * 20
            assert connection._rest is None

    on_loop(main())


def test_many_stalled_clients_get_every_byte(on_loop: OnLoop, tmp_path: Path) -> None:
    """More than one look into the epoll object finds; each is served, and nothing remains when they have gone."""

    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script, ConnectionLimits(send_buffer_bytes=16_384)) as listener:
            clients = [await Client.connect(listener) for _ in range(80)]
            for client in clients:
                pause(client)
                client.send(b"slice 0 1000000")
            await until(lambda: len(listener.writable_sockets._waiting) == 80)
            for client in clients:
                resume(client)
            for client in clients:
                assert await client.receive() == expected(0, 1_000_000)
            assert listener.writable_sockets._waiting == {}
            assert script.files.read == 2 * 80
            for client in clients:
                client.writer.close()
            await until(lambda: not listener.connections)
            assert listener.writable_sockets._poll is None

    on_loop(main())


@pytest.mark.parametrize("refused", ["object", "socket"])
def test_without_epoll_few_bytes_wait_in_memory(on_loop: OnLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    class Refusing(WritableSockets):
        __slots__ = ()

        def wait(self, descriptor: int, send_on: Callable[[], None]) -> bool:
            return super().wait(descriptor if refused == "object" else NO_DESCRIPTOR, send_on)

    def no_descriptor() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            listener.writable_sockets = Refusing(listener.at_end_of_turn)
            if refused == "object":
                monkeypatch.setattr(select, "epoll", no_descriptor)
            client = await Client.connect(listener)
            connection = await stall(listener, client, b"slice 0 %d" % SIZE, b"bye")
            assert connection._transport is not None
            assert 0 < connection._transport.get_write_buffer_size() <= PIECE_SIZE
            monkeypatch.undo()
            resume(client)
            assert await client.receive() == expected(0, SIZE)
            assert await client.receive() == b"bye"

    on_loop(main())


def test_a_slow_reader_gets_every_byte_in_order(on_loop: OnLoop, tmp_path: Path) -> None:
    """Answers that complete while the client does not read queue after the rest of the slice."""

    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script, ConnectionLimits(send_buffer_bytes=16_384)) as listener:
            client = await Client.connect(listener)
            pause(client)
            client.send(b"fsync", b"slice 1 500000", b"fsync", b"small", b"slice 2 300000")
            await until(lambda: len(script.seen) >= 4)
            connection = only_connection(listener)
            script.waiting[0].finish([frame(b"first")])
            await until(lambda: connection._rest is not None)
            script.waiting[1].finish([frame(b"second")])
            wanted = b"".join(map(frame, [b"first", expected(1, 500_000), b"second", b"small", expected(2, 300_000)]))
            received = bytearray()
            resume(client)
            while len(received) < len(wanted):
                received += await client.reader.read(10_000)
            assert received == wanted

    on_loop(main())


def test_a_client_that_keeps_up_lets_others_have_their_turn(on_loop: OnLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_output, "TURN_SIZE", 1)

    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(*[b"slice 0 300000"] * 3, b"bye")
            for _ in range(3):
                assert await client.receive() == expected(0, 300_000)
            assert await client.receive() == b"bye"

    on_loop(main())


def test_file_is_read_in_pieces_without_sendfile(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        script.files.send_error = errno.EINVAL
        async with listening(script) as listener:
            client = await Client.connect(listener)
            connection = await stall(listener, client, b"slice 0 %d" % SIZE, b"bye")
            transport = connection._transport
            assert transport is not None
            assert transport.get_write_buffer_size() <= 256 * 1024
            resume(client)
            assert await client.receive() == expected(0, SIZE)
            assert await client.receive() == b"bye"

    on_loop(main())


def test_a_file_that_was_cut_while_the_client_did_not_read_closes_the_connection(
    on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            os.truncate(script.path, SIZE - 1)
            resume(client)
            assert await client.is_closed()
            await until(lambda: not listener.connections)

    on_loop(main())
    assert [record.getMessage() for record in caplog.records] == [
        "closing the connection of 127.0.0.1: [Errno 61] A log file is shorter than it was"
    ]
    assert [error.errno for error in script.errors] == [errno.ENODATA]
    script.errors.clear()  # their tracebacks have the slice
    script.handle.close()
    assert not open_descriptors(script.path)


def test_a_file_that_ends_where_sendfile_stopped_closes_the_connection(
    on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """sendfile then takes nothing without an error: this is not a full socket."""
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            os.truncate(script.path, script.files.sent)
            resume(client)
            assert await client.is_closed()
            await until(lambda: not listener.connections)

    on_loop(main())
    assert "A log file is shorter than it was" in caplog.text
    assert [error.errno for error in script.errors] == [errno.ENODATA]


@pytest.mark.parametrize("can_read", [True, False])
def test_a_disk_that_fails_while_the_client_does_not_read(
    on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, can_read: bool
) -> None:
    """If only sendfile fails, the rest is read; if reading fails as well, the connection is closed and the log directory hears of it."""
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            script.files.send_error = errno.EIO
            script.files.can_read = can_read
            resume(client)
            if can_read:
                assert await client.receive() == expected(0, SIZE)
            else:
                assert await client.is_closed()
                await until(lambda: not listener.connections)

    on_loop(main())
    assert ("Input/output error" in caplog.text) == (not can_read)
    assert [error.errno for error in script.errors] == [errno.EIO] * (not can_read)


def test_a_client_that_ends_its_side_while_it_does_not_read_gets_every_byte(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            client.writer.write_eof()
            resume(client)
            assert await client.receive() == expected(0, SIZE)
            assert await client.is_closed()

    on_loop(main())


def test_a_connection_that_is_aborted_while_its_client_does_not_read(on_loop: OnLoop, tmp_path: Path) -> None:
    """As when the broker is killed by its test or closes for memory: nothing is called any more, and a new client can stall again."""
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            for _ in range(2):
                client = await Client.connect(listener)
                connection = await stall(listener, client, b"slice 0 %d" % SIZE)
                (send_on,) = listener.writable_sockets._waiting.values()
                connection.abort()
                listener.at_end_of_turn(send_on)  # as if the socket had been found in this turn
                resume(client)
                assert await client.is_closed()
                await until(lambda: not listener.connections)
                assert listener.writable_sockets._poll is None

    on_loop(main())
    script.handle.close()
    assert not open_descriptors(script.path)


def test_a_client_that_stalls_and_leaves_releases_its_slices(on_loop: OnLoop, tmp_path: Path) -> None:
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, *[b"slice 0 %d" % SIZE] * 3)
            assert open_descriptors(script.path) > 1
            client.writer.transport.abort()
            await until(lambda: not listener.connections)
            script.handle.close()
            assert not open_descriptors(script.path)

    on_loop(main())


def test_a_connection_that_closes_sends_the_rest_first(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            connection = await stall(listener, client, b"slice 0 %d" % SIZE)
            connection.close()
            resume(client)
            assert await client.receive() == expected(0, SIZE)
            assert await client.is_closed()

    on_loop(main())


def test_a_client_that_stalls_is_closed_as_idle(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script, ConnectionLimits(max_idle_ms=1000)) as listener:
            client = await Client.connect(listener)
            await stall(listener, client, b"slice 0 %d" % SIZE)
            for _ in range(6):  # the first two find what the client did before, and the last four are the time
                listener.sweep()
            await until(lambda: not listener.connections)
            resume(client)
            assert await client.is_closed()

    on_loop(main())


def test_queued_slice_outlives_its_file(on_loop: OnLoop, tmp_path: Path) -> None:
    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"slice 7 400000")
            await until(lambda: len(script.seen) == 2)
            script.handle.close()
            script.path.unlink()
            script.waiting[0].finish([frame(b"synced")])
            assert await client.receive() == b"synced"
            assert await client.receive() == expected(7, 400_000)

    on_loop(main())


def test_a_disk_that_fails_while_the_answer_leaves_closes_the_connection(
    on_loop: OnLoop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"slice %d 400000" % (SIZE - 400_000))
            await until(lambda: len(script.seen) == 2)
            os.truncate(script.path, SIZE - 100)
            script.waiting[0].finish([frame(b"synced")])
            assert await client.receive() == b"synced"
            assert await client.is_closed()
            again = await Client.connect(listener)
            again.send(b"hello")
            assert await again.receive() == b"hello"

    on_loop(main())
    assert "shorter" in caplog.text
    assert [error.errno for error in script.errors] == [errno.ENODATA]


def test_disconnect_releases_file_slices(on_loop: OnLoop, tmp_path: Path) -> None:
    script = Slices(tmp_path)

    async def main() -> None:
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.send(b"fsync", b"slice 0 400000")
            await until(lambda: len(script.seen) == 2)
            client.writer.transport.abort()
            await until(lambda: not listener.connections)
        script.handle.close()

    on_loop(main())
    assert not open_descriptors(script.path)
