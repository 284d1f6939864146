"""HTTPS for sites, with the certificate of a listener of the broker."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from minibroker.errors import ConfigurationError
from minibroker.server.listener import Listener
from minibroker.server.secured_listener import SecuredListener


def https_context(listeners: Callable[[], list[Listener]]) -> ssl.SSLContext:
    """Return a context that shows the present certificate of the first listener with TLS, also after a change.

    Clients are not asked for certificates.

    Raises:
        ConfigurationError: no listener has TLS.
    """
    if _secured(listeners()) is None:
        raise ConfigurationError("it needs a listener with TLS, because it uses that listener's certificate: see --tls")

    def choose(connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        secured = _secured(listeners())
        if secured is not None:
            connection.context = secured.tls.context

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.sni_callback = choose
    return context


def _secured(listeners: list[Listener]) -> SecuredListener | None:
    return next((each.secured for each in listeners if isinstance(each.secured, SecuredListener)), None)
