"""The shared code of the APIs of delegation tokens (KIP-48).

A client may use these APIs if it has logged in with its own credentials: not on PLAINTEXT, not on
SSL without a certificate, and not with a token, which could otherwise renew itself forever
(KafkaApis.allowTokenRequests of Apache Kafka 4.3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.dispatch.context import ANONYMOUS, RequestContext
from minibroker.errors import DelegationTokenAuthDisabled, DelegationTokenRequestNotAllowed, KafkaError

if TYPE_CHECKING:
    from minibroker.cluster.metadata.delegation_tokens import StoredTokens

NO_TIME: Final = -1  #: the times in answers without a token, from Kafka's brokers
NO_TIME_OF_CONTROLLER: Final = 0  #: the same from Kafka's controllers


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
    """Return the expiry in the answer to a failed renewal or expiry."""
    return NO_TIME if isinstance(error, DelegationTokenRequestNotAllowed) else NO_TIME_OF_CONTROLLER


def split(principal: str) -> tuple[str, str]:
    """Return type and name of a principal such as `User:alice`."""
    principal_type, _, name = principal.partition(":")
    return principal_type, name
