"""Sockets that listen at an address, before there is a server that accepts their connections."""

from __future__ import annotations

import asyncio
from socket import AF_INET6, AI_PASSIVE, IPPROTO_IPV6, IPV6_V6ONLY, SO_REUSEADDR, SOCK_STREAM, SOL_SOCKET, socket
from typing import Final

_BACKLOG: Final = 128  #: connections that wait to be accepted


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
