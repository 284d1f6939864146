"""Sockets that listen at an address, before there is a server that accepts their connections, and how many of these may be open."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from socket import AF_INET6, AI_PASSIVE, IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiohttp import web

CONNECTIONS_MAX: Final = 1_000  #: of one port; the server closes further ones
_HANDSHAKE_S: Final = 10.0
_LOOK_S: Final = 15.0  #: between two looks at responses that clients do not read
_LOOKS: Final = 4  #: in which nothing may be read, before the connection is closed
_BACKLOG: Final = 128  #: connections that wait to be accepted
_LOG: Final = logging.getLogger(__name__)


async def listening_sockets(host: str, port: int) -> list[socket]:
    """Listen at every address of a host, as asyncio's servers do. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM, flags=AI_PASSIVE)
    sockets: list[socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            each = socket(family, kind, protocol)
            sockets.append(each)
            each.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            if family == AF_INET6:
                each.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
            each.setblocking(False)
            each.bind(address)
            each.listen(_BACKLOG)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


class Acceptor:
    """Accepts connections at the sockets of one port, unless too many are open, and closes those that are not read.

    Those in a TLS handshake count as open.

    asyncio's own server creates a transport before it asks what serves a connection, and completes a handshake even to refuse it.
    """

    def __init__(self, server: web.Server, sockets: list[socket], tls: ssl.SSLContext | None) -> None:
        self._server = server
        self._sockets = sockets
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()  #: for connections that aiohttp does not know yet
        self._timers: dict[socket, asyncio.TimerHandle] = {}  #: of sockets that rest
        self._is_full = False
        self._unread: dict[web.RequestHandler, tuple[int, int]] = {}  #: bytes of a response, and looks with so many
        self._look: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Accept connections."""
        for each in self._sockets:
            self._loop.add_reader(each, self._accept, each)
        self.look()

    def look(self) -> None:
        """Close connections whose clients read nothing of a response for a minute, and look again later."""
        unread: dict[web.RequestHandler, tuple[int, int]] = {}
        for each in self._server.connections:
            transport = each.transport
            size = 0 if transport is None else transport.get_write_buffer_size()
            before, looks = self._unread.get(each, (0, 0))
            if transport is not None and size:
                looks = looks + 1 if size == before else 0
                unread[each] = size, looks
                if looks >= _LOOKS:
                    transport.abort()
        self._unread = unread
        self._look = self._loop.call_later(_LOOK_S, self.look)

    def close(self) -> None:
        """Accept no further connections, and end handshakes."""
        for each in self._sockets:
            self._loop.remove_reader(each)
        for timer in (self._look, *self._timers.values()):
            if timer is not None:
                timer.cancel()
        for task in self._opening:
            task.cancel()

    def _accept(self, listening: socket) -> None:
        for _ in range(_BACKLOG):
            try:
                accepted = listening.accept()[0]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor is free: the socket stays readable
                _LOG.warning("HTTP: could not accept a connection: %s (will retry in a second)", error)
                self._loop.remove_reader(listening)
                self._timers[listening] = self._loop.call_later(1.0, self._loop.add_reader, listening, self._accept, listening)
                return
            if self._has_room():
                accepted.setblocking(False)
                task = self._loop.create_task(self._open(accepted))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
                task.add_done_callback(partial(_close_if_cancelled, accepted))
            else:
                accepted.close()

    def _has_room(self) -> bool:
        has_room = len(self._server.connections) + len(self._opening) < CONNECTIONS_MAX
        if not has_room and not self._is_full:
            _LOG.warning("HTTP: closing new connections, because %d are open", CONNECTIONS_MAX)
        self._is_full = not has_room
        return has_room

    async def _open(self, accepted: socket) -> None:
        factory = cast("Callable[[], asyncio.Protocol]", self._server)  # aiohttp has its own base class
        handshake_s = None if self._tls is None else _HANDSHAKE_S
        with contextlib.suppress(OSError):  # the handshake failed, or the client is gone
            await self._loop.connect_accepted_socket(factory, accepted, ssl=self._tls, ssl_handshake_timeout=handshake_s)


def _close_if_cancelled(accepted: socket, opening: asyncio.Task[None]) -> None:
    if opening.cancelled():
        accepted.close()
