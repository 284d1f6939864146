"""What the server sides of SASL mechanisms have in common (RFC 4422).

    evaluate(token) -> challenge, until `is_complete`; then `principal_name` is who logged in.

A mechanism does no IO and keeps no secret longer than the exchange needs it.
"""

from __future__ import annotations

from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)  #: that minibroker serves

OTHER_AUTHORIZATION_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"


class SaslFailed(Exception):  # noqa: N818  named for what happened
    """The client may not log in. The text is for the log; it contains no secret and no text of the client."""

    def __init__(self, reason: str, told: str | None = None) -> None:
        """`told` is the message for the client. Without it the client gets Kafka's general one, which says only that it failed."""
        super().__init__(reason)
        self.told = told


class SaslMechanism(Protocol):
    """The server side of one exchange."""

    is_complete: bool  #: the client is authenticated
    principal_name: str  #: who it is; only when complete
    expires_ms: int | None  #: when its credential stops to be valid, in milliseconds since the epoch; None: never
    is_token_authenticated: bool  #: whether it used a delegation token

    def evaluate(self, token: bytes) -> bytes:
        """Return the answer to a token of the client.

        Raises:
            SaslFailed: the client may not log in; the exchange is over.
        """
