"""A listener with a scripted dispatcher, on either event loop."""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from minibroker.clock import Clock
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.errors import WireError
from minibroker.server.connection import Connection
from minibroker.server.listener import ConnectionCounts, ConnectionLimits, Listener
from minibroker.server.loop import LoopClock
from minibroker.testing.faults.effects import TornAnswerError
from minibroker.wire.schema import Buffer

OnLoop = Callable[[Coroutine[Any, Any, None]], None]

#: Where the listeners of these tests are. Clients of tests that run beside them try to connect again to a port of 127.0.0.1 whose
#: broker has stopped. Linux may give that port to a listener of a test, which would count their requests.
HOST = "127.77.0.1" if sys.platform == "linux" else "127.0.0.1"


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Waiting(Delayed):
    """An answer that a test gives when it likes."""

    __slots__ = ("body", "is_cancelled", "is_kept", "request", "steps_aside")

    request: memoryview  #: of one that keeps its frame

    def __init__(self, body: bytes, *, steps_aside: bool) -> None:
        super().__init__()
        self.is_cancelled = False
        self.is_kept = False
        self.body = body
        self.steps_aside = steps_aside

    @property
    def keeps_frame(self) -> bool:
        return self.is_kept

    def finish(self, answer: list[Buffer] | None, error: WireError | None = None) -> None:
        self.answer = answer
        self.error = error or WireError("not answered")
        self.is_done = True
        if self._on_done is not None:
            self._on_done()

    def step_aside(self) -> None:
        if self.steps_aside and not self.is_done:
            self.finish([frame(b"aside " + self.body)])

    def cancel(self) -> None:
        self.is_cancelled = True


class Script:
    """A dispatcher that does what frames say.

    `park` and `fsync` wait, `slice` waits and keeps its frame.
    `silent` has no answer, `bad` is no request, `big N` has N bytes of answer; others are echoed.
    """

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.waiting: list[Waiting] = []

    async def wait_for(self, number: int) -> None:
        """Until `number` + 1 requests wait or have waited."""
        await until(lambda: len(self.waiting) > number)

    def dispatch(self, connection: ConnectionInfo, request: memoryview) -> list[Buffer] | Delayed:
        body = bytes(request)
        self.seen.append(body)
        if body.startswith((b"park", b"fsync")):
            waiting = Waiting(body, steps_aside=body.startswith(b"park"))
            self.waiting.append(waiting)
            return waiting
        if body.startswith(b"slice"):
            waiting = Waiting(body, steps_aside=False)
            waiting.is_kept = True
            waiting.request = request
            self.waiting.append(waiting)
            return waiting
        if body == b"silent":
            return []
        if body == b"bad":
            raise WireError("bad request")
        if body == b"torn":
            raise TornAnswerError("a fault", frame(body)[:6])
        if body.startswith(b"big"):
            size = int(body[3:])
            return [struct.pack(">i", size), bytes(size)]
        return [frame(body)]

    def describe(self, frame: memoryview) -> str:
        """Name a request for the watchdog: a busy machine makes any turn slow."""
        return str(bytes(frame[:20]))


@asynccontextmanager
async def listening(
    script: Script | None = None,
    limits: ConnectionLimits | None = None,
    clock: Clock | None = None,
    *,
    host: str = HOST,
    counts: ConnectionCounts | None = None,
    connection_throttle_ms: Callable[[str], int] = lambda _host: 0,
    make_connection: Callable[[Listener], Connection] = Connection,
    secure: Callable[[Listener], object] | None = None,
) -> AsyncIterator[Listener]:
    clock = clock or LoopClock(asyncio.get_running_loop())
    dispatcher: Any = script or Script()
    listener = Listener(
        "PLAINTEXT", dispatcher, clock, lambda: limits or ConnectionLimits(), make_connection, counts, connection_throttle_ms
    )
    if secure is not None:
        secure(listener)
    await listener.open(host, 0, 50)
    try:
        yield listener
    finally:
        listener.stop_accepting()
        for connection in list(listener.connections):
            connection.abort()
        await until(lambda: not listener.connections)


def address_of(listener: Listener) -> str:
    """Return the address that it listens on."""
    return str(listener._servers[0].sockets[0].getsockname()[0])


def only_connection(listener: Listener) -> Connection:
    (connection,) = listener.connections
    assert isinstance(connection, Connection)
    return connection


class Client:
    """The other side: raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, listener: Listener, host: str | None = None) -> Client:
        return cls(*await asyncio.open_connection(host or address_of(listener), listener.port))

    def send(self, *bodies: bytes) -> None:
        self.writer.write(b"".join(map(frame, bodies)))

    async def receive(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        """Wait for the end of the stream; what comes before it is thrown away."""
        try:
            await self.reader.read()
        except ConnectionError:
            return True
        return self.reader.at_eof()


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until `condition` holds."""
    while not condition():  # noqa: ASYNC110  the conditions are those of plain code, which knows no events
        await asyncio.sleep(0.001)
