"""CreateAcls, API key 30: add access control entries.

v1  pattern types: literal and prefixed resource names (KIP-290)
v2  flexible
v3  resources of the type USER (KIP-373)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Int8, Int16, Int32, String, field, struct

API_KEY = 30
VERSIONS = (1, 3)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 2


@struct
class AclCreation:
    """The numbers are those of DescribeAcls, without "any" and "match"."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class Request:
    creations: list[AclCreation]


@struct
class AclCreationResult:
    error_code: Int16
    error_message: String | None


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[AclCreationResult]  #: one for each creation, in its order
