"""TLS of one listener of a running broker: what new connections get. Open connections keep what they have."""

from __future__ import annotations

import asyncio
from typing import cast

from minibroker.security.tls import ListenerTls
from minibroker.server.listener import Listener
from minibroker.server.tls_transport import Handshakes, TlsProtocol


class SecuredListener:
    """Puts TLS before each connection of a listener."""

    def __init__(self, listener: Listener, tls: ListenerTls) -> None:
        self.tls = tls  #: of connections from now on; may be replaced
        self._listener = listener
        self._handshakes = Handshakes(listener.at_end_of_turn, listener.now_ms)
        listener.secured = self._wrap

    def _wrap(self, connection: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        inner = cast("asyncio.BufferedProtocol", connection)
        return TlsProtocol(inner, self.tls, self._handshakes, self._listener.after, self._listener.at_end_of_turn)
