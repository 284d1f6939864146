"""CreateDelegationToken, API key 38: a token with which other processes log in as this user (KIP-48).

v2  flexible
v3  tokens for other owners (KIP-373)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bytes, Int16, Int32, Int64, String, field, struct

API_KEY = 38
VERSIONS = (1, 3)
ROUTED_BY = Controller()
AUTHORIZES = (Special("CREATE_TOKENS of the user, if the token is for another user"),)
FLEXIBLE_SINCE = 2


@struct
class Renewer:
    """Kafka's name is CreatableRenewers."""

    principal_type: String  #: User
    principal_name: String


@struct
class Request:
    owner_principal_type: String | None = field(since=3, default="")
    owner_principal_name: String | None = field(since=3, default="")  #: null or empty: the user who asks
    renewers: list[Renewer]  #: who may renew the token, besides its owner
    max_lifetime_ms: Int64  #: -1: delegation.token.max.lifetime.ms of the broker


@struct
class Response:
    error_code: Int16
    principal_type: String
    principal_name: String
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes  #: a secret: base64 of it is the password of SCRAM
    throttle_time_ms: Int32 = field(default=0)
