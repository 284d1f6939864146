"""RenewDelegationToken, API key 39: move the expiry of a token into the future, up to its longest lifetime (KIP-48).

v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bytes, Int16, Int32, Int64, field, struct

API_KEY = 39
VERSIONS = (1, 2)
ROUTED_BY = Controller()
AUTHORIZES = (Special("nothing; the handler checks that the client owns or may renew the token"),)
FLEXIBLE_SINCE = 2


@struct
class Request:
    hmac: Bytes
    renew_period_ms: Int64  #: below 0: delegation.token.expiry.time.ms of the broker


@struct
class Response:
    error_code: Int16
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = field(default=0)
