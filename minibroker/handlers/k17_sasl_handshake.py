"""SaslHandshake (key 17) of a client that is logged in already, or on a listener without SASL: ILLEGAL_SASL_STATE, as in Apache Kafka.

Versions: 0 and 1. Until a client has logged in, server/sasl/gate.py serves its requests.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import IllegalSaslState
from minibroker.schemas import k17_sasl_handshake as schema


@handles(schema)
def sasl_handshake(_ctx: RequestContext, _request: schema.Request) -> schema.Response:
    """Return ILLEGAL_SASL_STATE and no mechanisms."""
    return schema.Response(error_code=IllegalSaslState.code, mechanisms=[])
