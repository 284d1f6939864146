"""A blocking TCP connection that sends chunks and receives whole frames, each within a deadline."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

from minibroker.client.address import Address
from minibroker.client.deadline import Deadline
from minibroker.client.errors import BrokerUnreachable, NotAKafkaBroker, TimedOut
from minibroker.wire.frame import FrameSizeError, frame_size
from minibroker.wire.schema import Buffer

MAX_FRAME_BYTES = 256 * 1024 * 1024  #: a Fetch requests at most 50 MB, but one batch may be larger
CONNECT_TIMEOUT_S = 10.0  #: then the client tries the next broker of the list
IOV_MAX = 512  #: chunks of one sendmsg; the system's limit is at least 1024


class Transport(Protocol):
    """The transport of a Connection: a socket, or a broker in memory."""

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        """Send a frame with its size."""

    def receive(self, deadline: Deadline) -> memoryview:
        """Return the next frame without its size."""

    def close(self) -> None:
        """Close the transport. A second call does nothing."""


class SocketTransport:
    """A Transport over TCP."""

    __slots__ = ("_address", "_socket")

    def __init__(self, address: Address, deadline: Deadline) -> None:
        """Connect, or raise BrokerUnreachable."""
        self._address = address
        try:
            left = _timeout_s(deadline)
            self._socket = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S if left is None else min(left, CONNECT_TIMEOUT_S))
        except TimeoutError as error:
            if deadline.over:
                raise TimedOut(f"{address} does not answer in time") from error
            raise BrokerUnreachable(f"{address} does not answer: is the address right, is a firewall between?") from error
        except socket.gaierror as error:
            raise BrokerUnreachable(f"the name {address.host!r} is unknown: {error.strerror}") from error
        except OSError as error:
            raise BrokerUnreachable(f"no connection to {address}: {error.strerror or error}: does a broker listen there?") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all chunks, also if the system takes only a part at a time."""
        left = [memoryview(chunk) for chunk in chunks]
        while left:
            try:
                self._socket.settimeout(_timeout_s(deadline))
                sent = self._socket.sendmsg(left[:IOV_MAX])
            except TimeoutError as error:
                raise TimedOut(f"{self._address} takes no more bytes: time-out") from error
            except OSError as error:
                raise BrokerUnreachable(f"the connection to {self._address} broke: {error.strerror or error}") from error
            left = _after(left, sent)

    def receive(self, deadline: Deadline) -> memoryview:
        """Receive one frame. Its size is checked before memory is allocated."""
        try:
            size = frame_size(self._receive(4, deadline), 0, MAX_FRAME_BYTES)
        except FrameSizeError as error:
            raise NotAKafkaBroker(f"{self._address} does not answer as a Kafka listener without TLS would: {error}") from error
        return self._receive(size, deadline)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _receive(self, size: int, deadline: Deadline) -> memoryview:
        frame = memoryview(bytearray(size))
        got = 0
        while got < size:
            try:
                self._socket.settimeout(_timeout_s(deadline))
                count = self._socket.recv_into(frame[got:])
            except TimeoutError as error:
                raise TimedOut(f"no answer from {self._address} in time") from error
            except OSError as error:
                raise BrokerUnreachable(f"the connection to {self._address} broke: {error.strerror or error}") from error
            if count == 0:
                raise BrokerUnreachable(f"{self._address} closed the connection")
            got += count
        return frame


def _timeout_s(deadline: Deadline) -> float | None:
    left = deadline.remaining_s()
    if left == 0.0:
        raise TimeoutError
    return left


def _after(chunks: list[memoryview], sent: int) -> list[memoryview]:
    """Return the chunks without their first `sent` bytes."""
    for index, chunk in enumerate(chunks):
        if sent < chunk.nbytes:
            return [chunk[sent:], *chunks[index + 1 :]]
        sent -= chunk.nbytes
    return []
