"""AlterUserScramCredentials, API key 51: set and remove users' passwords for SCRAM mechanisms (KIP-554).

v0  flexible from the start
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bytes, Int8, Int16, Int32, String, field, struct

API_KEY = 51
VERSIONS = (0, 0)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 0
LEFTOVER_ALLOWED = True  #: librdkafka 2.16 leaves a byte after the request, and Kafka ignores it


@struct
class Deletion:
    name: String  #: the user's
    mechanism: Int8  #: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


@struct
class Upsertion:
    name: String  #: the user's
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes  #: the client has hashed the password; the broker never sees it


@struct
class Request:
    deletions: list[Deletion]
    upsertions: list[Upsertion]


@struct
class Result:
    user: String
    error_code: Int16
    error_message: String | None


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[Result]  #: one a user, however many changes
