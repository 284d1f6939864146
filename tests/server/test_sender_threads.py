"""Threads that send slices: when they do, what else is served meanwhile, and what becomes of a slice whose connection is closed.

tests/server/test_sendfile.py runs all of its tests with threads as well.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from minibroker.server import sender_threads
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionCounts, ConnectionLimits, Listener
from minibroker.server.sender_threads import AUTO, THREAD_SIZE, SenderThreads
from minibroker.storage.file_slice import FileSlice
from minibroker.storage.files import APPEND, Files, RealFiles
from minibroker.testing.lab.storage_faults import FailingFiles
from minibroker.testing.memory_files import MemoryFiles
from tests.server.serving import Client, OnLoop, listening, only_connection, until
from tests.server.test_sendfile import DATA, SIZE, Always, Slices, expected, open_descriptors, pause, resume

LARGE = b"slice 0 %d" % THREAD_SIZE
ANSWER = expected(0, THREAD_SIZE)


class Stuck(RealFiles):
    """Threads stay in `send`, as on a disk that hangs, until the test lets them go on. Counts what they and the loop sent."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.error: Exception | None = None
        self.loop_thread = threading.get_ident()
        self.by_loop = 0
        self.by_threads = 0

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:  # type: ignore[override]  # as RealFiles
        if threading.get_ident() == self.loop_thread:
            self.by_loop += 1
        else:
            self.by_threads += 1
            self.goes_on.wait()
            if self.error is not None:
                raise self.error
        return os.sendfile(socket_descriptor, descriptor, position, size)


class StuckSlices(Slices):
    """Answers that threads do not send before the test says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.handle.close()
        self.stuck = Stuck()
        self.files = self.stuck  # type: ignore[assignment]  # in the place of the one that counts bytes
        self.handle = self.stuck.handles.handle(str(self.path), APPEND)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[StuckSlices]:
    script = StuckSlices(tmp_path)
    yield script
    script.stuck.goes_on.set()
    script.handle.close()


def counts(threads: int = 1) -> ConnectionCounts:
    return ConnectionCounts(sender_threads=Always(threads))


def senders() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("minibroker-sender")]


async def read_alternately(first: Client, second: Client, request: bytes, times: int) -> None:
    for _ in range(times):
        for client in (first, second):
            client.send(request)
            await client.receive()


def test_threads_send_large_slices_of_several_clients(on_loop: OnLoop, script: StuckSlices) -> None:
    async def main() -> None:
        script.stuck.goes_on.set()
        async with listening(script, counts=ConnectionCounts(sender_threads=SenderThreads(1))) as listener:
            first, second = await Client.connect(listener), await Client.connect(listener)
            for _ in range(5):
                first.send(LARGE)
                assert await first.receive() == ANSWER
            await read_alternately(first, second, b"slice 0 %d" % (THREAD_SIZE - 1), 2)
            assert script.stuck.by_threads == 0
            assert not senders()
            await read_alternately(first, second, LARGE, 5)
            assert script.stuck.by_threads >= 10
            assert len(senders()) == 1
        await until(lambda: not senders())

    on_loop(main())


def test_others_are_served_while_a_thread_sends(on_loop: OnLoop, script: StuckSlices) -> None:
    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            reader, other = await Client.connect(listener), await Client.connect(listener)
            reader.send(LARGE, b"next")
            await until(lambda: script.stuck.by_threads)
            other.send(b"hello")
            assert await other.receive() == b"hello"
            assert b"next" not in script.seen  # one answer at a time
            script.stuck.goes_on.set()
            assert await reader.receive() == ANSWER
            assert await reader.receive() == b"next"
            assert script.stuck.by_loop == 0

    on_loop(main())


@pytest.mark.parametrize("how", ["abort", "reset"])
def test_a_connection_that_ends_while_a_thread_sends(on_loop: OnLoop, script: StuckSlices, how: str) -> None:
    """The client notices at once, and the slice and the socket are released as soon as the thread is done with them."""

    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            client, waiting = await Client.connect(listener), await Client.connect(listener)
            client.send(LARGE)
            await until(lambda: script.stuck.by_threads)
            connection = answering(listener)
            waiting.send(b"slice 1 %d" % THREAD_SIZE)  # is queued, and never sent: the thread is busy
            await until(lambda: len(script.seen) == 2)
            queued = answering(listener, but=connection)
            if how == "abort":
                connection.abort()
                assert await client.is_closed()
            else:
                client.writer.transport.abort()
                connection.abort()  # it does not read, so it would not notice
            queued.abort()
            assert await waiting.is_closed()
            await until(lambda: not listener.connections)
            assert listener.sender_threads._queued == 2
            script.stuck.goes_on.set()
            await until(lambda: not listener.sender_threads._queued)
            assert script.stuck.by_threads == 1
        await until(lambda: not senders())

    on_loop(main())
    script.handle.close()
    assert not open_descriptors(script.path)


def answering(listener: Listener, but: Connection | None = None) -> Connection:
    """Return the connection whose answer is not sent yet."""
    connections = [each for each in listener.connections if isinstance(each, Connection)]
    (found,) = [each for each in connections if each._rest is not None and each is not but]
    return found


def test_a_broker_that_stops_waits_for_the_rest(on_loop: OnLoop, script: StuckSlices) -> None:
    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            client = await Client.connect(listener)
            client.send(LARGE)
            await until(lambda: script.stuck.by_threads)
            only_connection(listener).close()
            script.stuck.goes_on.set()
            assert await client.receive() == ANSWER
            assert await client.is_closed()

    on_loop(main())


def test_a_loop_that_ends_while_a_thread_sends(on_loop: OnLoop, script: StuckSlices) -> None:
    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            client = await Client.connect(listener)
            client.send(LARGE)
            await until(lambda: script.stuck.by_threads)

    on_loop(main())
    script.stuck.goes_on.set()
    for thread in senders():
        thread.join()
    script.handle.close()
    assert not open_descriptors(script.path)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "disk"), OSError(errno.EINVAL, "sendfile"), ValueError("unforeseen")])
def test_a_thread_that_fails_leaves_the_slice_to_the_loop(on_loop: OnLoop, script: StuckSlices, error: Exception) -> None:
    async def main() -> None:
        script.stuck.error = error
        script.stuck.goes_on.set()
        async with listening(script, counts=counts()) as listener:
            client = await Client.connect(listener)
            client.send(LARGE, b"bye")
            assert await client.receive() == ANSWER
            assert await client.receive() == b"bye"
            assert (script.stuck.by_threads, script.stuck.by_loop) == (1, 0)

    on_loop(main())


def test_a_file_that_is_cut_before_a_thread_sends_closes_the_connection(
    on_loop: OnLoop, script: StuckSlices, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            client = await Client.connect(listener)
            client.send(LARGE)
            await until(lambda: script.stuck.by_threads)
            os.truncate(script.path, THREAD_SIZE // 2)
            script.stuck.goes_on.set()
            assert await client.is_closed()

    on_loop(main())
    assert "A log file is shorter than it was" in caplog.text
    assert [error.errno for error in script.errors] == [errno.ENODATA]


def test_a_slow_client_is_left_to_the_loop(on_loop: OnLoop, script: StuckSlices) -> None:
    """A thread sends what the socket takes and does not wait. The loop goes on when the socket takes little."""

    async def main() -> None:
        script.stuck.goes_on.set()
        async with listening(script, ConnectionLimits(send_buffer_bytes=16_384), counts=counts()) as listener:
            slow, other = await Client.connect(listener), await Client.connect(listener)
            pause(slow)
            slow.send(b"slice 0 %d" % SIZE)
            await until(lambda: listener.writable_sockets._waiting)
            assert (script.stuck.by_threads, script.stuck.by_loop) == (1, 0)
            other.send(LARGE)
            assert await other.receive() == ANSWER
            resume(slow)
            assert await slow.receive() == expected(0, SIZE)
            assert script.stuck.by_loop

    on_loop(main())


def test_the_queue_is_bounded(on_loop: OnLoop, script: StuckSlices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_threads, "QUEUED_MAX", 2)

    async def main() -> None:
        async with listening(script, counts=counts()) as listener:
            clients = [await Client.connect(listener) for _ in range(3)]
            for number, client in enumerate(clients, start=1):
                client.send(LARGE)
                await until(lambda number=number: len(script.seen) == number)  # type: ignore[misc]  # binds the number of this round
            assert await clients[-1].receive() == ANSWER
            assert script.stuck.by_loop == 1
            script.stuck.goes_on.set()
            for client in clients[:-1]:
                assert await client.receive() == ANSWER

    on_loop(main())


@pytest.mark.parametrize("short", ["descriptors", "threads"])
def test_without_descriptors_or_threads_the_loop_sends(
    on_loop: OnLoop, script: StuckSlices, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, short: str
) -> None:
    def no_descriptor(_: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        async with listening(script, counts=counts(2)) as listener:
            client = await Client.connect(listener)
            if short == "threads":
                monkeypatch.setattr(threading.Thread, "start", no_thread)
            else:
                monkeypatch.setattr(sender_threads, "os", SimpleNamespace(dup=no_descriptor))
            client.send(LARGE)
            assert await client.receive() == ANSWER
            assert script.stuck.by_loop == 1
            monkeypatch.undo()

    on_loop(main())
    warning = "could not start thread 1 of minibroker.sender.threads=2: can't start new thread"
    logged = [record.getMessage() for record in caplog.records if record.name == sender_threads.__name__]  # not those of slow turns
    assert logged == [warning] * (short == "threads")


def test_fewer_threads_than_configured_send(script: StuckSlices, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start
    started: list[threading.Thread] = []

    def start_one(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    async def main() -> None:
        script.stuck.goes_on.set()
        async with listening(script, counts=counts(3)) as listener:
            client = await Client.connect(listener)
            monkeypatch.setattr(threading.Thread, "start", start_one)
            client.send(LARGE)
            assert await client.receive() == ANSWER
            assert script.stuck.by_threads == 1
        await until(lambda: not senders())  # the only one was stopped as well

    asyncio.run(main())


@pytest.mark.parametrize(("processors", "threads"), [(1, 0), (2, 1), (4, 3), (64, 3)])
def test_as_many_threads_as_processors_but_one(monkeypatch: pytest.MonkeyPatch, processors: int, threads: int) -> None:
    monkeypatch.setattr(sender_threads, "processors_of_this_process", lambda: processors)
    assert SenderThreads(AUTO)._count == threads
    assert SenderThreads(5)._count == 5
    assert SenderThreads()._count == 0


def test_only_files_of_the_system_are_sent_in_threads(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000000.log")
    (tmp_path / "00000000000000000000.log").write_bytes(DATA[:10])
    memory = MemoryFiles()
    memory.make_directory(str(tmp_path))
    memory.write(memory.open(path, APPEND), DATA[:10])
    kinds: list[tuple[Files, bool]] = [(RealFiles(), True), (memory, False), (FailingFiles(RealFiles()).as_files(), False)]
    for files, can_leave in kinds:
        assert FileSlice(files, files.handles.handle(path, APPEND), 0, 10).can_leave_the_loop is can_leave
