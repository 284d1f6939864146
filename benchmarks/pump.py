"""A load generator that costs little, so that the broker is what is measured.

Frames are encoded before the clock starts, answers are only looked at where their error is, buffers are reused. A small request
costs it 4 to 6 us of CPU (9 when each answer comes alone), most of it the kernel's, where the fastest broker of the comparison needs
12: loads that count requests give its own `client CPU us/request`, so that this can be seen in every run.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

NO_ANSWER_S = 60
HEAD_SIZE = 256  #: bytes that are read of an answer whose rest is ignored
BUFFER_SIZE = 1 << 12  #: initial size of a link's buffer
READ_SIZE = 1 << 16

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
    outgoing: list[bytes | memoryview] = field(default_factory=list)
    incoming: bytearray = field(default_factory=lambda: bytearray(BUFFER_SIZE))
    filled: int = 0  #: bytes of `incoming` that are valid
    waits_to_send: bool = False  #: the kernel takes no more at the moment
    unread: int = 0  #: bytes of the answer that are discarded on arrival
    offset: int = 0  #: the next offset that a fetching load requests


def connect(address: tuple[str, int]) -> socket.socket:
    """Connect as clients do, without delay for small frames. The socket blocks, with a timeout in the kernel."""
    connection = socket.create_connection(address, timeout=NO_ANSWER_S)
    connection.setblocking(True)
    patience = struct.pack("@ll", NO_ANSWER_S, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_answer(connection: socket.socket) -> bytearray:
    """Read one complete answer without its size; only one may be in flight."""
    data = bytearray()
    missing = 4
    while missing > 0:
        try:
            more = connection.recv(max(missing, READ_SIZE))
        except BlockingIOError as error:
            raise LoadError(f"no answer in {NO_ANSWER_S} s") from error
        if not more:
            raise LoadError("the broker closed the connection")
        data += more
        missing = 4 + struct.unpack_from(">i", data)[0] - len(data) if len(data) >= 4 else 4 - len(data)
    if missing:
        raise LoadError("more than one answer to one request")
    del data[:4]
    return data


def call(connection: socket.socket, frame: bytes) -> bytearray:
    """Send one request and wait for its answer."""
    connection.sendall(frame)
    return read_answer(connection)


class Pump:
    """Keeps `depth` requests in flight on each of its connections until `total` are answered.

    With `heads_only` the kernel discards everything after the first 256 bytes of an answer, so that large answers cost next to nothing
    here; a link has one request in flight then.
    """

    def __init__(self, connections: Iterable[socket.socket], *, depth: int, heads_only: bool = False) -> None:
        self._depth = depth
        self._receive = _received_head if heads_only else _received
        self._epoll = select.epoll()
        self._links = [Link(number, connection) for number, connection in enumerate(connections)]
        self._by_descriptor = {link.connection.fileno(): link for link in self._links}
        for link in self._links:
            link.connection.setblocking(False)
            self._epoll.register(link.connection, select.EPOLLIN)

    def close(self) -> None:
        """Close every connection."""
        for link in self._links:
            link.connection.close()
        self._epoll.close()

    def run(self, total: int, following: Next, check: Check) -> float:
        """Return the seconds from the first byte sent to the last answer."""
        sent = done = 0
        started = time.perf_counter()
        for link in self._links:
            for _ in range(min(self._depth, total - sent)):
                link.outgoing.append(following(link, sent))
                sent += 1
            self._flush(link)
        while done < total:
            for descriptor, mask in self._events():
                link = self._by_descriptor[descriptor]
                if mask & ~select.EPOLLOUT:
                    for _ in range(self._receive(link, check)):
                        done += 1
                        if sent < total:
                            link.outgoing.append(following(link, sent))
                            sent += 1
                self._flush(link)
        return time.perf_counter() - started

    def _events(self) -> list[tuple[int, int]]:
        events = self._epoll.poll(NO_ANSWER_S)
        if not events:
            raise LoadError(f"no answer in {NO_ANSWER_S} s")
        return events

    def _flush(self, link: Link) -> None:
        if not link.outgoing:
            return
        data = memoryview(link.outgoing[0] if len(link.outgoing) == 1 else b"".join(link.outgoing))
        link.outgoing.clear()
        with contextlib.suppress(BlockingIOError):
            data = data[link.connection.send(data) :]
        if data:
            link.outgoing.append(data)
        if link.waits_to_send != bool(data):
            link.waits_to_send = bool(data)
            self._epoll.modify(link.connection, select.EPOLLIN | (select.EPOLLOUT if data else 0))


def _received(link: Link, check: Check) -> int:
    """Return how many complete answers the received bytes contain."""
    with memoryview(link.incoming) as view:
        link.filled += _some(link.connection.recv_into(view[link.filled :]))
    position = count = size = 0
    while link.filled - position >= 4:
        (size,) = struct.unpack_from(">i", link.incoming, position)
        if link.filled - position - 4 < size:
            break
        check(link, link.incoming, position + 4, size)
        position += 4 + size
        count += 1
    if position:
        left = link.filled - position
        link.incoming[:left] = link.incoming[position : link.filled]
        link.filled = left
    if size + 4 > len(link.incoming):  # make room for the whole answer
        link.incoming.extend(bytes(size + 4 - len(link.incoming)))
    return count


def _received_head(link: Link, check: Check) -> int:
    """Return 1 when one answer is complete, reading only its head and discarding the rest."""
    if link.unread:
        link.unread -= _some(link.connection.recv_into(_SINK, min(link.unread, len(_SINK)), socket.MSG_TRUNC))
        return int(not link.unread)
    with memoryview(link.incoming) as view:
        link.filled += _some(link.connection.recv_into(view[link.filled : HEAD_SIZE]))
    if link.filled < 4:
        return 0
    (size,) = struct.unpack_from(">i", link.incoming)
    if link.filled < min(HEAD_SIZE, size + 4):
        return 0
    check(link, link.incoming, 4, size)
    link.unread = size + 4 - link.filled
    link.filled = 0
    return int(not link.unread)


def _some(count: int) -> int:
    if not count:
        raise LoadError("the broker closed the connection")
    return count


#: Nothing is ever written here: MSG_TRUNC discards, but Python needs a buffer of that size.
_SINK = bytearray(1 << 20)
