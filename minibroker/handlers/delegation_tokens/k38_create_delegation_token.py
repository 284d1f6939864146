"""CreateDelegationToken (key 38): issue a token, with which an application logs in as its owner.

Versions: 1 to 3; 2 is flexible; 3 issues tokens for other users, which needs CREATE_TOKENS on the
user (KIP-373). The answer is sent when the token is on the disk. The order of the checks is that of
Apache Kafka 4.3.1. Unlike in Kafka, an owner must be a user, and the number of tokens and of their
renewers is limited (security/tokens.py).
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import (
    DelegationTokenAuthorizationFailed,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    KafkaError,
)
from minibroker.handlers.delegation_tokens import NO_TIME, NO_TIME_OF_CONTROLLER, check_login, split, stored_tokens
from minibroker.schemas import k38_create_delegation_token as schema
from minibroker.wire.authorization import Operation, ResourceType

_ERRORS_OF_BROKERS: Final = (DelegationTokenRequestNotAllowed, DelegationTokenAuthorizationFailed, InvalidPrincipalType)
_USER: Final = "User"


@handles(schema)
def create_delegation_token(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Create the token."""
    check_login(ctx)
    requester, owner = ctx.connection.principal, _owner(ctx, request)
    if owner != requester and not _may_create_for(ctx, owner):
        raise DelegationTokenAuthorizationFailed("Delegation Token authorization failed.")
    if any(each.principal_type != _USER for each in request.renewers):
        raise InvalidPrincipalType("Supplied principalType is not supported.")
    tokens = stored_tokens(ctx)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
    token = tokens.create(owner, requester, renewers, request.max_lifetime_ms)
    (owner_type, owner_name), (requester_type, requester_name) = split(owner), split(requester)
    return schema.Response(
        error_code=0,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=token.issue_ms,
        expiry_timestamp_ms=token.expiry_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=tokens.rules.hmac_of(token.token_id),
    )


def on_error(ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error` with the owner and the requester."""
    (owner_type, owner_name), (requester_type, requester_name) = split(_owner(ctx, request)), split(ctx.connection.principal)
    no_time = NO_TIME if isinstance(error, _ERRORS_OF_BROKERS) else NO_TIME_OF_CONTROLLER
    return schema.Response(
        error_code=error.code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=no_time,
        expiry_timestamp_ms=no_time,
        max_timestamp_ms=no_time,
        token_id="",
        hmac=b"",
    )


def _may_create_for(ctx: RequestContext, owner: str) -> bool:
    if ctx.broker.authorizer is None:
        return True
    from minibroker.dispatch.authorization.access import Access  # noqa: PLC0415  a broker without an authorizer does not need it

    return Access(ctx, "CreateDelegationToken").allows(Operation.CREATE_TOKENS, ResourceType.USER, owner)


def _owner(ctx: RequestContext, request: schema.Request) -> str:
    if not request.owner_principal_name:
        return ctx.connection.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
