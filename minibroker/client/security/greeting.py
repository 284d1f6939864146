"""Find out whether a listener with TLS or SASL answers, without a login.

With TLS this is half a handshake. A whole one would leave a line in the broker's log if the listener requires a client certificate.
"""

from __future__ import annotations

import socket
import ssl
from typing import Final

from minibroker.client.errors import BrokerUnreachable, ClientError
from minibroker.client.security.connecting import connector, mismatch
from minibroker.client.security.settings import StoreSettings, TlsSettings
from minibroker.client.security.tls import failure, make_context
from minibroker.client.transport import CONNECT_TIMEOUT_S, Address, Deadline, SocketTransport

_NO_STORE: Final = StoreSettings(None, None, None, "")
#: The certificate is not verified: it need not be valid for the loopback address, and nothing secret is sent.
_UNVERIFIED: Final = TlsSettings(_NO_STORE, _NO_STORE, checks_host=False, checks_certificate=False)
_SIZE: Final = 65_536


def greet(address: Address, protocol: str, deadline: Deadline) -> None:
    """Send the greeting of a TLS client, or without TLS the request for versions, and wait for the answer.

    Raises:
        ClientError: the broker does not answer, or the protocol is not that of the listener.
    """
    if not protocol.endswith("SSL"):
        connector({"security.protocol": "PLAINTEXT"})(address, deadline).close()
        return
    try:
        SocketTransport(address, deadline, _Greeting()).close()
    except BrokerUnreachable as error:
        raise mismatch(address, "SSL", error) or error from None


class _Greeting:
    """Begins a TLS handshake, and stops when the broker has answered."""

    def wrap(self, plain: socket.socket, address: Address, deadline: Deadline) -> socket.socket:
        """Send a greeting and read the answer; raise a ClientError if there is none."""
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = make_context(_UNVERIFIED).wrap_bio(received, sent, server_hostname=address.host)
        try:
            _step(client)
            while True:
                plain.sendall(sent.read())
                left_s = deadline.remaining_s()
                plain.settimeout(CONNECT_TIMEOUT_S if left_s is None else max(0.001, left_s))
                data = plain.recv(_SIZE)
                if not data:
                    raise ConnectionResetError
                received.write(data)
                if _step(client) or sent.pending:
                    return plain
        except OSError as error:
            raise failure(error, address, _UNVERIFIED) from error

    def explain(self, error: OSError, address: Address) -> ClientError | None:
        """Explain an alert."""
        return failure(error, address, _UNVERIFIED)


def _step(client: ssl.SSLObject) -> bool:
    """Continue the handshake with what was received. Returns whether it is over for the client."""
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
