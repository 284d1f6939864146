"""A load generator that costs little: frames are encoded before the clock starts, answers are only looked at where their error is."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

NO_ANSWER_S = 60.0
READ_SIZE = 1 << 20

#: (link, answer bytes, start of the body of one answer, its length) -> None; raises when the answer is an error.
Check = Callable[["Link", bytearray, int, int], None]
#: (link, number of the request) -> the next frame to send.
Next = Callable[["Link", int], bytes]


class LoadError(Exception):
    """The broker answered with an error, or not at all."""


@dataclass(eq=False)
class Link:
    """One connection of the load."""

    number: int
    connection: socket.socket
    outgoing: bytearray = field(default_factory=bytearray)
    incoming: bytearray = field(default_factory=bytearray)
    offset: int = 0  #: the next offset that a fetching load asks for


def connect(address: tuple[str, int]) -> socket.socket:
    """A connection as clients make them: no delay for small frames."""
    connection = socket.create_connection(address, timeout=NO_ANSWER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_answer(connection: socket.socket) -> bytearray:
    """One whole answer, without its size."""
    return _read_exactly(connection, struct.unpack(">i", _read_exactly(connection, 4))[0])


def call(connection: socket.socket, frame: bytes) -> bytearray:
    """Send one request and wait for its answer."""
    connection.sendall(frame)
    return read_answer(connection)


def _read_exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise LoadError("the broker closed the connection")
        view = view[count:]
    return data


class Pump:
    """Keeps `depth` requests in flight on each of `links` connections until `total` are answered."""

    def __init__(self, address: tuple[str, int], *, links: int, depth: int) -> None:
        self._depth = depth
        self._selector = selectors.DefaultSelector()
        self._links = [Link(number, connect(address)) for number in range(links)]
        for link in self._links:
            link.connection.setblocking(False)
            self._selector.register(link.connection, selectors.EVENT_READ, link)

    def close(self) -> None:
        """Close every connection."""
        for link in self._links:
            link.connection.close()
        self._selector.close()

    def run(self, total: int, following: Next, check: Check) -> float:
        """Seconds from the first byte sent to the last answer."""
        sent = done = 0
        started = time.perf_counter()
        for link in self._links:
            for _ in range(min(self._depth, total - sent)):
                link.outgoing += following(link, sent)
                sent += 1
            self._flush(link)
        while done < total:
            events = self._selector.select(NO_ANSWER_S)
            if not events:
                raise LoadError(f"no answer in {NO_ANSWER_S:.0f} s")
            for key, mask in events:
                link = key.data
                if mask & selectors.EVENT_READ:
                    for _ in range(self._receive(link, check)):
                        done += 1
                        if sent < total:
                            link.outgoing += following(link, sent)
                            sent += 1
                self._flush(link)
        return time.perf_counter() - started

    def _receive(self, link: Link, check: Check) -> int:
        """How many whole answers the bytes that arrived complete."""
        data = link.connection.recv(READ_SIZE)
        if not data:
            raise LoadError("the broker closed the connection")
        incoming = link.incoming
        incoming += data
        position = count = 0
        while len(incoming) - position >= 4:
            (size,) = struct.unpack_from(">i", incoming, position)
            if len(incoming) - position - 4 < size:
                break
            check(link, incoming, position + 4, size)
            position += 4 + size
            count += 1
        if position:
            del incoming[:position]
        return count

    def _flush(self, link: Link) -> None:
        if link.outgoing:
            with contextlib.suppress(BlockingIOError):
                del link.outgoing[: link.connection.send(link.outgoing)]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.outgoing else 0)
        if self._selector.get_key(link.connection).events != wanted:
            self._selector.modify(link.connection, wanted, link)
