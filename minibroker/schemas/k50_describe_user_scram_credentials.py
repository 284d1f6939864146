"""DescribeUserScramCredentials, API key 50: which users have a password for which SCRAM mechanisms (KIP-554).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Int8, Int16, Int32, String, field, struct

API_KEY = 50
VERSIONS = (0, 0)
ROUTED_BY = AnyBroker()
AUTHORIZES = (OnCluster((Operation.DESCRIBE,)),)
FLEXIBLE_SINCE = 0


@struct
class User:
    name: String


@struct
class Request:
    users: list[User] | None  #: null or empty asks for all


@struct
class Credential:
    """Kafka's name is CredentialInfo; salt and keys are never sent."""

    mechanism: Int8  #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: Int32


@struct
class Result:
    user: String
    error_code: Int16
    error_message: String | None
    credential_infos: list[Credential]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    results: list[Result]
