"""Addresses of brokers, and a blocking TCP connection that sends chunks and receives whole frames, each within a deadline."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, TimedOut, describe
from minibroker.wire.header import FrameSizeError, frame_size
from minibroker.wire.schema import Buffer

#: pauses between attempts, in seconds. The first are short, because a new topic has its leader within milliseconds.
PAUSES_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
DEFAULT_PORT = 9092  #: of an address without a port


class Deadline:
    """A countdown from `timeout_ms`; None never ends."""

    __slots__ = ("_end_s", "_tries", "timeout_ms")

    def __init__(self, timeout_ms: int | None) -> None:
        self.timeout_ms = timeout_ms
        self._end_s = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        self._tries = 0

    def remaining_s(self) -> float | None:
        """Seconds left, never negative; None without an end."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    def remaining_ms(self, most: int) -> int:
        """Milliseconds left, at least 1 and at most `most`: a value for the timeout_ms of a request."""
        left = self.remaining_s()
        return most if left is None else max(1, min(most, int(left * 1000)))

    @property
    def over(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining_s() == 0.0

    def pause(self, reason: BaseException) -> None:
        """Wait before another attempt. If no time is left, raise TimedOut with the reason of the last failure."""
        pause_s = PAUSES_S[min(self._tries, len(PAUSES_S) - 1)]
        self._tries += 1
        left = self.remaining_s()
        if left is not None and left <= pause_s:
            raise TimedOut(f"gave up after {(self.timeout_ms or 0) / 1000:g} s: {describe(reason)}") from reason
        time.sleep(pause_s)


class Address(NamedTuple):
    """The host and port of a listener: `host:9092`, `[::1]:9092`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str) -> list[Address]:
    """Return the addresses of a bootstrap list, in its order; ClientError if one is invalid."""
    addresses = [_parse(part.strip()) for part in text.split(",") if part.strip()]
    if not addresses:
        raise ClientError("no bootstrap server given: pass host:port with -b or MINIBROKER_BOOTSTRAP_SERVER")
    return addresses


def _parse(text: str) -> Address:
    bare = text.partition("://")[2] or text
    if bare.startswith("["):
        host, closing, rest = bare[1:].partition("]")
        port_text = rest.removeprefix(":")
        wrong = not closing or (rest and not rest.startswith(":"))
    else:
        host, _, port_text = bare.partition(":")
        wrong = ":" in port_text
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else (0 if port_text else DEFAULT_PORT)
    if host and port > 65535:
        raise ClientError(f"bootstrap server {text!r}: the port must be from 1 to 65535")
    if wrong or not host or port == 0:
        raise ClientError(f"bootstrap server {text!r} is not host:port (an IPv6 address needs brackets: [::1]:9092)")
    return Address(host, port)


MAX_FRAME_BYTES = 256 * 1024 * 1024  #: a Fetch requests at most 50 MB, but one batch may be larger
CONNECT_TIMEOUT_S = 10.0  #: after this, the client tries the next broker of the list
TLS_BYTES = 65_536  #: limit for small chunks that are sent together by TLS
IOV_MAX = 512  #: chunks of one sendmsg; the system's limit is at least 1024


class Transport(Protocol):
    """The transport of a Connection: a socket, or a broker in memory."""

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        """Send a frame with its size."""

    def receive(self, deadline: Deadline) -> memoryview:
        """Return the next frame without its size."""

    def close(self) -> None:
        """Close the transport. A second call does nothing."""


class Tls(Protocol):
    """Adds TLS to a SocketTransport (minibroker/client/security/tls.py)."""

    def wrap(self, plain: socket.socket, address: Address, deadline: Deadline) -> socket.socket:
        """Do the TLS handshake on a connected socket; raise a ClientError if it fails."""

    def explain(self, error: OSError, address: Address) -> ClientError | None:
        """Return the TLS error that a later error of the socket stands for; None if it is not one."""


class SocketTransport:
    """A Transport over TCP, or over TLS with `tls`."""

    __slots__ = ("_address", "_send_some", "_socket", "_tls")

    def __init__(self, address: Address, deadline: Deadline, tls: Tls | None = None) -> None:
        """Connect; raise BrokerUnreachable, TimedOut, or a ClientError of `tls`."""
        self._address = address
        self._tls = tls
        try:
            left = _timeout_s(deadline)
            self._socket = socket.create_connection(address, timeout=CONNECT_TIMEOUT_S if left is None else min(left, CONNECT_TIMEOUT_S))
        except TimeoutError as error:
            if deadline.over:
                raise TimedOut(f"{address} does not answer in time") from error
            raise BrokerUnreachable(f"{address} does not answer: is the address right, or is a firewall in between?") from error
        except socket.gaierror as error:
            raise BrokerUnreachable(f"cannot resolve the host name {address.host!r}: {error.strerror}") from error
        except OSError as error:
            raise BrokerUnreachable(f"cannot connect to {address}: {error.strerror or error}. Is a broker running there?") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send_some: Callable[[list[memoryview]], int] = self._socket.sendmsg
        if tls is not None:
            try:
                self._socket = tls.wrap(self._socket, address, deadline)
            except BaseException:
                self._socket.close()
                raise
            self._send_some = self._send_record

    def send(self, chunks: Sequence[Buffer], deadline: Deadline) -> None:
        """Send all chunks, although the system may accept only a part at a time."""
        left = [memoryview(chunk) for chunk in chunks]
        while left:
            try:
                self._socket.settimeout(_timeout_s(deadline))
                sent = self._send_some(left[:IOV_MAX])
            except TimeoutError as error:
                raise TimedOut(f"{self._address} accepts no more bytes: time-out") from error
            except OSError as error:
                raise self._broken(error) from error
            left = _after(left, sent)

    def receive(self, deadline: Deadline) -> memoryview:
        """Receive one frame. Its size is checked before memory is allocated."""
        try:
            size = frame_size(self._receive(4, deadline), 0, MAX_FRAME_BYTES)
        except FrameSizeError as error:
            raise NotAKafkaBroker(f"{self._address} is not a Kafka listener without TLS: {error}") from error
        return self._receive(size, deadline)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send_record(self, chunks: list[memoryview]) -> int:
        """Send some chunks by TLS, which has no sendmsg. Small chunks are joined, so that they share a TLS record."""
        if chunks[0].nbytes >= TLS_BYTES:
            return self._socket.send(chunks[0])
        together = bytearray()
        for chunk in chunks:
            if len(together) + chunk.nbytes > TLS_BYTES:
                break
            together += chunk
        return self._socket.send(together or chunks[0])

    def _broken(self, error: OSError) -> ClientError:
        of_tls = None if self._tls is None else self._tls.explain(error, self._address)
        return of_tls or BrokerUnreachable(f"the connection to {self._address} broke: {error.strerror or error}")

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
                raise self._broken(error) from error
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
