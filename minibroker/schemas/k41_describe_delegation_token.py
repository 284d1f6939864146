"""DescribeDelegationToken, API key 41: the tokens that the user may see, by owner (KIP-48).

v2  flexible
v3  who requested each token (KIP-373)
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bytes, Int16, Int32, Int64, String, field, struct

API_KEY = 41
VERSIONS = (1, 3)
ROUTED_BY = AnyBroker()
AUTHORIZES = (Special("DESCRIBE of each token, or DESCRIBE_TOKENS of its owner, unless the client owns it or may renew it"),)
FLEXIBLE_SINCE = 2


@struct
class Owner:
    """Kafka's name is DescribeDelegationTokenOwner."""

    principal_type: String  #: User
    principal_name: String


@struct
class Request:
    owners: list[Owner] | None  #: null asks for all that the user may see


@struct
class Renewer:
    """Kafka's name is DescribedDelegationTokenRenewer."""

    principal_type: String
    principal_name: String


@struct
class Token:
    """Kafka's name is DescribedDelegationToken."""

    principal_type: String  #: of the owner
    principal_name: String
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes  #: a secret: base64 of it is the password of SCRAM
    renewers: list[Renewer]


@struct
class Response:
    error_code: Int16
    tokens: list[Token]
    throttle_time_ms: Int32 = field(default=0)
