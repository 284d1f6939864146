"""Connect by TLS and SASL, log in again before the session ends, and find out why a listener does not answer.

A broker closes a connection without an answer if the client's security protocol is not the listener's. `mismatch` then tries other
protocols, to tell the user which one to set.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Final

from minibroker.client.connection import CLIENT_ID, Connect, Connection
from minibroker.client.errors import BrokerUnreachable, ClientError, NotAKafkaBroker, SecurityFailed, SecurityPart
from minibroker.client.security.sasl import authenticate
from minibroker.client.security.settings import SaslSettings, SecuritySettings, read_settings
from minibroker.client.security.tls import ClientTls, speaks_tls
from minibroker.client.transport import Address, Deadline, SocketTransport
from minibroker.errors import IllegalSaslState, KafkaError
from minibroker.schemas import k17_sasl_handshake

PROBE_TIMEOUT_MS: Final = 3_000
SESSION_PART: Final = 0.85  #: after this part of a session, the client logs in again, as Java's client does


def connector(properties: Mapping[str, str], client_id: str = CLIENT_ID) -> Connect:
    """Return the function that connects by client properties.

    Raises:
        ConfigurationError: a property is missing or invalid, or names a file that cannot be used.
    """
    return connect_with(read_settings(properties), client_id)


def connect_with(settings: SecuritySettings, client_id: str = CLIENT_ID) -> Connect:
    """Return the function that connects with these settings."""
    tls = None if settings.tls is None else ClientTls(settings.tls)

    def connect(address: Address, deadline: Deadline) -> Connection:
        try:
            return _connect(address, deadline, settings, tls, client_id)
        except (BrokerUnreachable, NotAKafkaBroker) as error:
            explanation = mismatch(address, settings.protocol, error)
            if explanation is None:
                raise
            raise explanation from error

    return connect


def _connect(address: Address, deadline: Deadline, settings: SecuritySettings, tls: ClientTls | None, client_id: str) -> Connection:
    connection = Connection(SocketTransport(address, deadline, tls), address, client_id)
    try:
        connection.negotiate(deadline)
        if settings.sasl is not None:
            _log_in(connection, settings.sasl, deadline)
        else:
            connection.explain = lambda error: mismatch(address, settings.protocol, error)
    except BaseException:
        connection.close()
        raise
    return connection


def _log_in(connection: Connection, sasl: SaslSettings, deadline: Deadline) -> None:
    lifetime_ms = authenticate(connection, sasl, deadline)
    if lifetime_ms > 0:
        connection.renew_at_s = time.monotonic() + lifetime_ms / 1000 * SESSION_PART
        connection.renew = lambda deadline: _log_in(connection, sasl, deadline)


def mismatch(address: Address, protocol: str, error: ClientError) -> SecurityFailed | None:
    """Find out whether a listener that ended a connection has another security protocol than the client.

    Args:
        address: The listener.
        protocol: The client's security protocol.
        error: The failure of the client's own connection.

    Returns:
        An error that names the property to set; None if the protocol is right, or the reason cannot be found.
    """
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError) or (isinstance(cause, OSError) and not isinstance(cause, ConnectionError | ssl.SSLError)):
        return None  # the client was not connected
    has_tls = speaks_tls(address, PROBE_TIMEOUT_MS / 1000)
    if protocol.endswith("SSL") and not has_tls:
        mechanisms = _mechanisms(address)
        if mechanisms is None:
            return None
        needed = "SASL_PLAINTEXT" if mechanisms else "PLAINTEXT"
        return SecurityFailed(SecurityPart.PROTOCOL, f"{address} is a listener without TLS: set security.protocol={needed}")
    if has_tls and not protocol.endswith("SSL"):
        needed = "SASL_SSL" if protocol.startswith("SASL") else "SSL or SASL_SSL"
        return SecurityFailed(SecurityPart.PROTOCOL, f"{address} is a listener with TLS: set security.protocol to {needed}")
    if protocol == "PLAINTEXT" and (mechanisms := _mechanisms(address)):
        message = f"{address} is a listener with SASL ({', '.join(mechanisms)}): set security.protocol=SASL_PLAINTEXT, and a user"
        return SecurityFailed(SecurityPart.PROTOCOL, message)
    if protocol == "SSL" and str(error).endswith("closed the connection"):
        message = f"{address} closed the connection after the TLS handshake: if its listener has SASL, set security.protocol=SASL_SSL"
        return SecurityFailed(SecurityPart.PROTOCOL, message)
    return None


def _mechanisms(address: Address) -> list[str] | None:
    """Ask a listener without TLS for its SASL mechanisms. Return an empty list if it has no SASL, None if it does not answer as Kafka."""
    deadline = Deadline(PROBE_TIMEOUT_MS)
    try:
        connection = Connection(SocketTransport(address, deadline), address)
        try:
            connection.negotiate(deadline)
            request = k17_sasl_handshake.Request(mechanism="")
            response: k17_sasl_handshake.Response = connection.ask(k17_sasl_handshake, request, deadline)
        finally:
            connection.close()
    except (ClientError, KafkaError, OSError):
        return None
    return [] if response.error_code == IllegalSaslState.code else list(response.mechanisms)
