"""Sockets that listen at an address, before there is a server that accepts their connections, and how many of these may be open."""

from __future__ import annotations

import asyncio
import logging
from socket import AF_INET6, AI_PASSIVE, IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from aiohttp import web

CONNECTIONS_MAX: Final = 1_000  #: of one port; the server closes further ones
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


class Protocols:
    """Creates what serves a new connection of one port, unless too many are open."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._is_full = False

    def __call__(self) -> asyncio.Protocol:
        """Return aiohttp's protocol, or one that closes the connection."""
        if len(self._server.connections) < CONNECTIONS_MAX:
            self._is_full = False
            return cast("asyncio.Protocol", self._server())  # aiohttp has its own base class
        if not self._is_full:
            self._is_full = True
            _LOG.warning("HTTP: closing new connections, because %d are open", CONNECTIONS_MAX)
        return _Refused()


class _Refused(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()
