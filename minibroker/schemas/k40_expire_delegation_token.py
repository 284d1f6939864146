"""ExpireDelegationToken, API key 40: change the expiry of a token, or remove it at once (KIP-48).

v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bytes, Int16, Int32, Int64, field, struct

API_KEY = 40
VERSIONS = (1, 2)
ROUTED_BY = Controller()
AUTHORIZES = (Special("nothing; the handler checks that the client owns or may renew the token"),)
FLEXIBLE_SINCE = 2


@struct
class Request:
    hmac: Bytes
    expiry_time_period_ms: Int64  #: below 0 removes the token


@struct
class Response:
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
