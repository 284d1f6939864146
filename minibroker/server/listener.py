"""A listening socket and its connections: admission, and the sweep that closes idle ones.

A connection is idle if no whole request was served for `connections.max.idle.ms`, no answer is due, and the client has read all answers,
has stopped reading them, or is muted. One timer per listener checks all connections.
A connection is closed between one and one and a quarter of the limit after its last request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from minibroker.clock import Clock, Timer
from minibroker.dispatch.context import ConnectionInfo
from minibroker.dispatch.delayed import Delayed
from minibroker.server.advertised_address import PeerWatch
from minibroker.server.answer_memory import AnswerHolder, AnswerMemory
from minibroker.server.login_memory import LoginMemory
from minibroker.server.loop import Watchdog
from minibroker.server.receive_buffer import new_read_area
from minibroker.server.request_memory import SHORT_READ_SIZE, RequestHolder, RequestMemory
from minibroker.server.sender_threads import SenderThreads
from minibroker.server.wakefulness import Wakefulness
from minibroker.server.writable_sockets import WritableSockets
from minibroker.wire.schema import Buffer

if TYPE_CHECKING:
    from minibroker.server.sasl.listener import SaslListener

log = logging.getLogger(__name__)

_SWEEP_MAX_MS: Final = 30_000  #: memory of idle connections is freed at least this often
_BIND_ATTEMPTS: Final = 5


class ConnectionLimits(NamedTuple):
    """Limits of connections, named after Kafka's properties."""

    request_max_bytes: int = 104_857_600  #: socket.request.max.bytes
    queued_max_requests: int = 500  #: of one connection, waiting for their answers
    queued_max_request_bytes: int = 268_435_456  #: of all connections, in requests that have not arrived completely; negative: no limit
    max_idle_ms: int = 600_000  #: connections.max.idle.ms; negative: never closed
    max_connections: int = 2**31 - 1  #: over all listeners
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: Mapping[str, int] = {}
    max_connections_of_listener: int = 2**31 - 1  #: listener.name.NAME.max.connections
    creation_rate: int = 2**31 - 1  #: max.connection.creation.rate: new connections a second, over all listeners
    creation_rate_of_listener: int = 2**31 - 1  #: listener.name.NAME.max.connection.creation.rate
    send_buffer_bytes: int = -1  #: -1: the default of the system
    receive_buffer_bytes: int = -1


class ConnectionCounts:
    """What the listeners of a broker share: numbers of connections, the memory of requests, answers and logins, threads, the watchdog."""

    def __init__(self, watchdog: Watchdog | None = None, sender_threads: SenderThreads | None = None) -> None:
        self.by_host: Counter[str] = Counter()
        self.total = 0
        self.rate = ConnectionRate()
        self.request_memory = RequestMemory()
        self.answer_memory = AnswerMemory()
        self.login_memory = LoginMemory()
        self.watchdog = watchdog or Watchdog()
        self.sender_threads = sender_threads or SenderThreads()


class Dispatches(Protocol):
    """A Dispatcher, or the gate before it that a client has to pass."""

    def dispatch(self, connection: ConnectionInfo, frame: memoryview, /) -> list[Buffer] | Delayed:
        """Serve one request. Raises WireError to close the connection."""

    def describe(self, frame: memoryview, /) -> str:
        """Name a request for the log."""


class AcceptedConnection(AnswerHolder, RequestHolder, Protocol):
    """A connection as its listener uses it; `Connection` is the implementation."""

    info: ConnectionInfo
    is_active: bool  #: something happened since the last sweep, which clears it
    silent_ms: int  #: written by the sweep

    @property
    def own_host(self) -> str:
        """The address of this host that the client connected to."""

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for an answer."""

    def refuse_in(self, delay_ms: int) -> None:
        """Serve nothing, and close after this time."""

    def hold_for(self, delay_ms: int) -> None:
        """Serve nothing for this time."""

    def exchange_read_area(self, read_area: memoryview) -> None:
        """Receive into another area."""

    def release_memory(self) -> None:
        """Free an unused buffer."""

    def answer_parked(self) -> None:
        """Answer a parked Fetch with the available records."""

    def leave_all(self) -> None:
        """Answer waiting requests, or close, because the broker switches to other data."""

    def close(self) -> None:
        """Close when every request that was read is answered."""

    def abort(self) -> None:
        """Close now."""


class Listener:
    """One of `listeners`: accepts connections and owns them."""

    def __init__(  # noqa: PLR0917  one for each part of a broker; Broker puts them together
        self,
        name: str,
        dispatcher: Dispatches,
        clock: Clock,
        limits: Callable[[], ConnectionLimits],
        make_connection: Callable[[Listener], AcceptedConnection],
        counts: ConnectionCounts | None = None,
        connection_throttle_ms: Callable[[str], int] = lambda _host: 0,
    ) -> None:
        self.name = name
        self.secured: Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol] | None = (
            None  #: puts TLS before a connection; set before `open`
        )
        self._connection_throttle_ms = connection_throttle_ms  #: returns how long an address must wait until its next connection
        self.dispatcher = dispatcher
        self._limits = limits
        self._make_connection = make_connection
        self.security_protocol = "PLAINTEXT"  #: what clients of this listener speak; ServedNode sets it
        self.sasl: SaslListener | None = None  #: how clients log in, if they must; ServedNode sets it
        self.peer_watch: PeerWatch | None = None  #: checks clients from new addresses; ServedNode sets it
        self.unknown_client = ConnectionInfo(name, "unknown")  #: whose connections are not created yet
        self.connections: set[AcceptedConnection] = set()
        self.accepted = 0  #: connections since the start, also refused ones
        self.read_area = new_read_area()
        self.port = 0  #: the port in use, after `open`
        self._clock = clock
        self._counts = counts or ConnectionCounts()
        self._rate = ConnectionRate()
        self.watchdog = self._counts.watchdog
        self.answer_memory = self._counts.answer_memory
        self.login_memory = self._counts.login_memory
        self.request_memory = self._counts.request_memory
        self.request_memory.limit = limits().queued_max_request_bytes
        self.request_memory.on_shortage.append(self.exchange_read_area)
        self.sender_threads = self._counts.sender_threads
        self._servers: list[asyncio.Server] = []
        self.wakefulness = Wakefulness(self.at_end_of_turn)
        self.writable_sockets = WritableSockets(self.at_end_of_turn)
        self._sweep_timer: Timer | None = None
        idle_ms = limits().max_idle_ms
        self._sweep_ms = min(max(idle_ms // 4, 1), _SWEEP_MAX_MS) if idle_ms >= 0 else _SWEEP_MAX_MS

    @property
    def limits(self) -> ConnectionLimits:
        """The present limits. Some of them can change while the broker runs."""
        return self._limits()

    def at_end_of_turn(self, callback: Callable[[], None]) -> None:
        """Run `callback` after every connection that is ready has been served."""
        self._clock.call_later_ms(0, callback)

    def now_ms(self) -> int:
        """Return the time of the broker's clock."""
        return self._clock.now_ms()

    def after(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` after a delay."""
        return self._clock.call_later_ms(delay_ms, callback)

    async def open(self, host: str, port: int, backlog: int) -> None:
        """Listen on `host` (empty: every interface, IPv4 and IPv6) and `port` (0: a free one, the same for all addresses).

        Raises:
            OSError: the address is in use, or does not belong to this host.
        """
        sockets = bind(host, port, self.limits)
        self.port = sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()

        def make() -> asyncio.BaseProtocol:
            connection = cast("asyncio.BaseProtocol", self._make_connection(self))
            return connection if self.secured is None else self.secured(connection)

        self._servers = [await loop.create_server(make, sock=each, backlog=backlog) for each in sockets]
        self._schedule_sweep()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay open."""
        for server in self._servers:
            server.close()
        self._servers = []
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        if self.sasl is not None:
            self.sasl.close()

    # -- called by connections --------------------------------------------------------------------------------------

    def admit(self, connection: AcceptedConnection) -> bool:
        """Count a new connection. Returns False if there are too many."""
        host = connection.info.client_host
        watch = self.peer_watch
        if watch is not None and host not in watch.seen:
            watch.look(host, connection.own_host)
        counts, limits = self._counts, self.limits
        self.connections.add(connection)
        self.accepted += 1
        counts.total += 1
        counts.by_host[host] += 1
        if counts.total > limits.max_connections:
            log.warning("refusing a connection of %s: max.connections=%d are open", host, limits.max_connections)
            return False
        if len(self.connections) > limits.max_connections_of_listener:
            most = limits.max_connections_of_listener
            log.warning("refusing a connection of %s: listener.name.%s.max.connections=%d are open", host, self.name.lower(), most)
            return False
        allowed = limits.max_connections_per_ip_overrides.get(host, limits.max_connections_per_ip)
        if counts.by_host[host] > allowed:
            log.warning("refusing a connection of %s: max.connections.per.ip=%d are open", host, allowed)
            return False
        throttle_ms = self._connection_throttle_ms(host)
        if throttle_ms:
            log.info("refusing a connection of %s in %d ms: its address exceeds its connection_creation_rate", host, throttle_ms)
            connection.refuse_in(throttle_ms)
            return True
        return self._takes_turn(connection, limits)

    def _takes_turn(self, connection: AcceptedConnection, limits: ConnectionLimits) -> bool:
        """Hold a new connection until its turn by `max.connection.creation.rate`. Returns False if that would be too long."""
        now_ms = self._clock.now_ms()
        of_listener = self._rate.wait_ms(limits.creation_rate_of_listener, now_ms)
        of_all = None if of_listener is None else self._counts.rate.wait_ms(limits.creation_rate, now_ms)
        if of_listener is None or of_all is None:
            log.warning(
                "refusing a connection of %s: too many connections wait because of max.connection.creation.rate",
                connection.info.client_host,
            )
            return False
        if of_listener or of_all:
            connection.hold_for(max(of_listener, of_all))
        return True

    def exchange_read_area(self) -> None:
        """Give all connections another read area: a frame is kept in the old one, or memory is short or available again."""
        self.read_area = new_read_area()
        if self.request_memory.is_short:
            self.read_area = self.read_area[:SHORT_READ_SIZE]
        for connection in self.connections:
            connection.exchange_read_area(self.read_area)

    def forget(self, connection: AcceptedConnection) -> None:
        """Forget a closed connection."""
        self.request_memory.forget(connection)
        self.answer_memory.forget(connection)
        self.login_memory.forget(connection)
        if connection in self.connections:
            self.connections.remove(connection)
            host = connection.info.client_host
            self._counts.total -= 1
            self._counts.by_host[host] -= 1
            if not self._counts.by_host[host]:
                del self._counts.by_host[host]
            if not self.connections:
                self.writable_sockets.close()
            if not self._counts.total:
                self.sender_threads.close()

    # -- idle connections -------------------------------------------------------------------------------------------

    def _schedule_sweep(self) -> None:
        self._sweep_timer = self._clock.call_later_ms(self._sweep_ms, self.sweep)

    def sweep(self) -> None:
        """Close connections that were idle for too long, and free empty buffers.

        Idle time is counted in sweeps, not by the wall clock: a clock that jumps closes nothing.
        """
        max_idle_ms = self.limits.max_idle_ms
        for connection in list(self.connections):
            connection.release_memory()
            if connection.is_active or connection.is_waiting:
                connection.is_active = False
                connection.silent_ms = 0
                continue
            connection.silent_ms += self._sweep_ms
            if 0 <= max_idle_ms <= connection.silent_ms:
                host = connection.info.client_host
                log.debug("closing the connection of %s: idle for connections.max.idle.ms=%d", host, max_idle_ms)
                connection.abort()
        self._schedule_sweep()


def bind(host: str, port: int, limits: ConnectionLimits) -> list[socket.socket]:
    """Return sockets bound to every address of `host`, all on one port.

    Raises:
        OSError: an address is in use, or does not belong to this host.
    """
    addresses = _resolve(host) if host else [(int(socket.AF_INET6), "::"), (int(socket.AF_INET), "0.0.0.0")]
    for attempts_left in range(_BIND_ATTEMPTS, 0, -1):
        try:
            return _bind_all(addresses, port, limits)
        except OSError as error:
            # A free port of one family may be taken in the other.
            if port or error.errno != errno.EADDRINUSE or attempts_left == 1:
                raise
    raise AssertionError("unreachable")


def _bind_all(addresses: list[tuple[int, str]], port: int, limits: ConnectionLimits) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses:
            if family == socket.AF_INET6 and not socket.has_ipv6:
                continue
            try:
                listening = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                if len(addresses) > 1:
                    continue  # a kernel without this family
                raise
            sockets.append(listening)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # connections inherit it, like the buffer sizes
            if limits.send_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
            if limits.receive_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
            listening.setblocking(False)
            listening.bind((address, port or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)))
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def _resolve(host: str) -> list[tuple[int, str]]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


BURST_MS: Final = 10_000  #: the connections of this time may come at once: quota.window.num - 1 windows
WAIT_MAX_MS: Final = 10_000
UNLIMITED: Final = 2**31 - 1


class ConnectionRate:
    """`max.connection.creation.rate`: new connections above a rate wait for their turn (KIP-612). A listener has one, and a broker.

    As in Apache Kafka, the connections of ten seconds may come at once; later ones are served at the
    rate. (Measured with 4.3.1 and a rate of 5: of 70 connections 53 are served at once, then one a
    second, and the rest 11 s after the first.) There, connections wait in the queue of the system; here
    they are accepted and not served. A connection that would wait for longer than WAIT_MAX_MS is
    closed, so that a flood of connections does not take all file descriptors.
    """

    __slots__ = ("_next_ms",)

    def __init__(self) -> None:
        self._next_ms = 0.0  #: the time at which the next connection would come if all came at the rate

    def wait_ms(self, rate: int, now_ms: int) -> int | None:
        """Take a turn. Returns how long the connection must wait for it; None if that is too long, and no turn is taken.

        Args:
            rate: connections a second; 0 serves one a second, as Apache Kafka does.
            now_ms: the time. If it goes back, turns that are far in the future are forgotten.
        """
        if rate >= UNLIMITED:
            return 0
        turn_ms = max(self._next_ms, now_ms - BURST_MS) if self._next_ms <= now_ms + 2 * WAIT_MAX_MS else now_ms - BURST_MS
        wait_ms = max(round(turn_ms + 1000 / max(rate, 1)) - now_ms, 0)
        if wait_ms > WAIT_MAX_MS:
            return None
        self._next_ms = turn_ms + 1000 / max(rate, 1)
        return wait_ms
