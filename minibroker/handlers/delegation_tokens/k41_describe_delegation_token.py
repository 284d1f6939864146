"""DescribeDelegationToken (key 41): tokens and their HMACs, which are their passwords.

Versions: 1 to 3; 2 is flexible; 3 returns the requester of a token. A client sees the tokens of
which it is the owner, the requester or a renewer. It sees other tokens with DESCRIBE on the token
or DESCRIBE_TOKENS on the owner, or if the broker has no authorizer. Expired tokens are listed until
they are removed. Tokens are in the order of their creation; Kafka's order is that of a hash map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.dispatch.slices import Steps
from minibroker.handlers.delegation_tokens import check_login, split, stored_tokens
from minibroker.schemas import k41_describe_delegation_token as schema
from minibroker.wire.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from minibroker.security.tokens import DelegationToken

_STEP: Final = 100  #: tokens examined between two pauses


@handles(schema, has_long_answer=True)
def describe_delegation_token(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Describe the tokens of these owners, or all."""
    check_login(ctx)
    stored_tokens(ctx)
    if request.owners is not None and not request.owners:
        return schema.Response(error_code=0, tokens=[])
    return ctx.broker.slices.run(_describe(ctx, request))


def _describe(ctx: RequestContext, request: schema.Request) -> Steps:
    stored = stored_tokens(ctx)
    owner_names = None if request.owners is None else {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    described = []
    for number, token in enumerate(list(stored)):
        if (owner_names is None or not owner_names.isdisjoint((token.owner, token.requester, *token.renewers))) and _may_see(ctx, token):
            described.append(_described(token, stored.rules.hmac_of(token.token_id)))
        if number % _STEP == _STEP - 1:
            yield None
    return schema.Response(error_code=0, tokens=described)


def _may_see(ctx: RequestContext, token: DelegationToken) -> bool:
    principal, host, authorizer = ctx.connection.principal, ctx.connection.client_host, ctx.broker.authorizer
    return (
        token.concerns(principal)
        or authorizer is None
        or authorizer.is_allowed(principal, host, Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or authorizer.is_allowed(principal, host, Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, token_hmac: bytes) -> schema.Token:
    (owner_type, owner_name), (requester_type, requester_name) = split(token.owner), split(token.requester)
    return schema.Token(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[schema.Renewer(principal_type=kind, principal_name=name) for kind, name in map(split, token.renewers)],
    )
