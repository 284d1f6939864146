"""SaslHandshake, API key 17: choose a SASL mechanism, before the tokens of a log-in (KIP-43, KIP-152).

v0  tokens follow without headers, each after its size
v1  tokens follow in SaslAuthenticate requests
"""

from __future__ import annotations

from minibroker.wire.authorization import UNRESTRICTED
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Int16, String, struct

API_KEY = 17
VERSIONS = (0, 1)
ROUTED_BY = AnyBroker()
AUTHORIZES = UNRESTRICTED
FLEXIBLE_SINCE = None


@struct
class Request:
    mechanism: String  #: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER


@struct
class Response:
    error_code: Int16
    mechanisms: list[String]  #: those that the listener enables
