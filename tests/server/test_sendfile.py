"""Answers with slices of files, over a real socket, on both loops: every byte arrives, in order, whatever the client and the files do."""

from __future__ import annotations

import errno
import os
import random
import struct
from pathlib import Path

import pytest

from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.dispatcher import InFlight
from minibroker.storage.file_slice import FileSlice
from minibroker.storage.files import APPEND, RealFiles
from minibroker.wire.schema import Buffer
from tests.server.serving import Client, OnLoop, Script, frame, listening, until

SIZE = 5_000_000
DATA = random.Random(1).randbytes(SIZE)


class Counting(RealFiles):
    """Knows how many bytes sendfile took."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def send(self, socket_descriptor: int, descriptor: int, position: int, size: int, /) -> int:  # type: ignore[override]  # as RealFiles
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

    def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | InFlight:
        body = bytes(request)
        if not body.startswith(b"slice"):
            return super().dispatch(connection, request)
        self.seen.append(body)
        start, size = map(int, body.split()[1:])
        piece = FileSlice(self.files, self.handle, start, size)
        piece.on_failure = self.errors.append
        return [struct.pack(">i", 12 + size) + b"before", piece, b"behind"]  # type: ignore[list-item]  # as Fetch answers


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


def test_a_client_that_does_not_read_gets_the_rest_later(on_loop: OnLoop, tmp_path: Path) -> None:
    """More than the socket takes: what is left was read when the answer was given, and the file may be gone by then."""

    async def main() -> None:
        script = Slices(tmp_path)
        async with listening(script) as listener:
            client = await Client.connect(listener)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads
            client.send(*[b"slice 0 %d" % SIZE] * 3)
            await until(lambda: script.seen)
            script.handle.close()
            os.truncate(script.path, 0)
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert await client.receive() == expected(0, SIZE)
            assert script.files.sent < SIZE

    on_loop(main())


def test_a_slice_behind_an_answer_that_waits_outlives_its_file(on_loop: OnLoop, tmp_path: Path) -> None:
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


def test_a_client_that_leaves_takes_its_slices_along(on_loop: OnLoop, tmp_path: Path) -> None:
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
    assert not any(link.resolve() == script.path for link in Path("/proc/self/fd").iterdir())
