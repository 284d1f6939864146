"""Check that a listener with TLS or SASL answers, without a login. It is a file of its own because it imports much."""

from __future__ import annotations

from minibroker.client.errors import SecurityFailed, SecurityPart
from minibroker.client.security.connecting import connector
from minibroker.client.transport import Address, Deadline

#: The certificate is not verified: it need not be valid for the loopback address, and nothing secret is sent.
_TLS = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": ""}


def check_answers(address: Address, protocol: str, deadline: Deadline) -> None:
    """Request the versions of a broker, which needs no login. A broker that asks for a client certificate answers by asking.

    Raises:
        ClientError: it does not answer, or the protocol is not that of the listener.
    """
    try:
        connector(_TLS if protocol.endswith("SSL") else {"security.protocol": "PLAINTEXT"})(address, deadline).close()
    except SecurityFailed as error:
        if error.part is not SecurityPart.CLIENT_CERTIFICATE:
            raise
