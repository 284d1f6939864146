"""SaslAuthenticate, API key 36: one token of a log-in (KIP-152).

v1  session_lifetime_ms (KIP-368)
v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bytes, Int16, Int64, String, field, struct

API_KEY = 36
VERSIONS = (0, 2)
ROUTED_BY = AnyBroker()
AUTHORIZES = UNRESTRICTED
FLEXIBLE_SINCE = 2


@struct
class Request:
    auth_bytes: Bytes


@struct
class Response:
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = field(since=1, default=0)  #: the client must authenticate again before; 0: never
