"""RenewDelegationToken (key 39): let a token expire later, up to its maximum lifetime.

Versions: 1 and 2; 2 is flexible. The owner and the renewers may renew a token that has not expired.
The answer is sent when the expiry is on the disk.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.handlers.delegation_tokens import check_login, expiry_of, stored_tokens
from minibroker.schemas import k39_renew_delegation_token as schema


@handles(schema)
def renew_delegation_token(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Renew the token with this HMAC."""
    check_login(ctx)
    token = stored_tokens(ctx).renew(request.hmac, ctx.connection.principal, request.renew_period_ms)
    return schema.Response(error_code=0, expiry_timestamp_ms=token.expiry_ms)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error`."""
    return schema.Response(error_code=error.code, expiry_timestamp_ms=expiry_of(error))
