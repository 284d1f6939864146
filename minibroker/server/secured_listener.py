"""TLS of one listener of a running broker: what new connections get. Open connections keep what they have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from minibroker.security.tls import ListenerTls
from minibroker.server.listener import Listener
from minibroker.server.tls_transport import Handshakes, TlsProtocol


def _same(tls: ListenerTls) -> ListenerTls:
    return tls


class SecuredListener:
    """Puts TLS before each connection of a listener."""

    def __init__(self, listener: Listener, tls: ListenerTls) -> None:
        self.tls = tls  #: of connections from now on; may be replaced
        self.choose: Callable[[ListenerTls], ListenerTls] = _same  #: returns the TLS of the next connection; the test kit has its own
        self._listener = listener
        self._handshakes = Handshakes(listener.at_end_of_turn, listener.now_ms)
        listener.secured = self

    def __call__(self, connection: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Put TLS before a connection."""
        inner = cast("asyncio.BufferedProtocol", connection)
        return TlsProtocol(inner, self.choose(self.tls), self._handshakes, self._listener.after, self._listener.at_end_of_turn)
