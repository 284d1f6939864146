"""What the APIs of delegation tokens have in common (KIP-48).

A client may ask about tokens if it has logged in by its own credentials: not on PLAINTEXT, not on SSL without a certificate, and not with
a token, which could otherwise renew itself for ever (KafkaApis.allowTokenRequests of Apache Kafka 4.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.dispatch.context import ANONYMOUS, RequestContext
from minibroker.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed, KafkaError

if TYPE_CHECKING:
    from minibroker.cluster.metadata.delegation_tokens import StoredTokens

NO_TIME: Final = -1  #: a time in answers of Kafka's brokers without a token
NO_TIME_OF_CONTROLLER: Final = 0  #: the same in answers of its controllers


def check_login(ctx: RequestContext) -> None:
    """Raise DelegationTokenRequestNotAllowed if the client's login does not allow requests about tokens."""
    connection = ctx.connection
    if (
        connection.is_token_authenticated
        or connection.security_protocol == "PLAINTEXT"
        or (connection.security_protocol == "SSL" and connection.principal == ANONYMOUS)
    ):
        raise DelegationTokenRequestNotAllowed(
            "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels."
        )


def stored_tokens(ctx: RequestContext) -> StoredTokens:
    """Return the tokens of the cluster, or raise DelegationTokenAuthDisabled if there is no delegation.token.secret.key."""
    if ctx.broker.tokens is None:
        raise DelegationTokenAuthDisabled("Delegation Token feature is not enabled.")
    return ctx.broker.tokens


def expiry_of(error: KafkaError) -> int:
    """Return the expiry in the answer to a renewal or an expiry that failed."""
    return NO_TIME if isinstance(error, DelegationTokenRequestNotAllowed) else NO_TIME_OF_CONTROLLER


def split(principal: str) -> tuple[str, str]:
    """Return type and name of a principal such as `User:alice`."""
    principal_type, _, name = principal.partition(":")
    return principal_type, name
