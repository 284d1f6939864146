"""ExpireDelegationToken (key 40): let a token expire earlier, or remove it.

Versions: 1 and 2; 2 is flexible. Only the owner and the renewers may change a token. An expired
token can still be removed. A client that is logged in with the token may continue until its session
ends. The answer is sent when the change is on the disk.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError
from minibroker.handlers.delegation_tokens import check_login, expiry_of, stored_tokens
from minibroker.schemas import k40_expire_delegation_token as schema


@handles(schema)
def expire_delegation_token(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Change the expiry of the token with this HMAC."""
    check_login(ctx)
    expiry_ms = stored_tokens(ctx).expire(request.hmac, ctx.connection.principal, request.expiry_time_period_ms)
    return schema.Response(error_code=0, expiry_timestamp_ms=expiry_ms)


def on_error(_ctx: RequestContext, _request: schema.Request, error: KafkaError) -> schema.Response:
    """Return `error`."""
    return schema.Response(error_code=error.code, expiry_timestamp_ms=expiry_of(error))
