"""SaslAuthenticate (key 36) of a client that is logged in already, or on a listener without SASL: ILLEGAL_SASL_STATE, as in Apache Kafka.

Versions: 0 to 2; 2 is flexible. Until a client has logged in, server/sasl/gate.py serves its
requests.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import IllegalSaslState
from minibroker.schemas import k36_sasl_authenticate as schema


@handles(schema)
def sasl_authenticate(_ctx: RequestContext, _request: schema.Request) -> schema.Response:
    """Return ILLEGAL_SASL_STATE, with Kafka's message."""
    message = "SaslAuthenticate request received after successful authentication"
    return schema.Response(error_code=IllegalSaslState.code, error_message=message, auth_bytes=b"")
