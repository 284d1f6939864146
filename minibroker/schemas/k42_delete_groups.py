"""DeleteGroups, API key 42: forget groups without members, and their offsets.

v0  groups by name
v1  answer carries throttle_time_ms before the quota delay, not after it
v2  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import EachGroup, Operation
from minibroker.wire.routing import CoordinatorOfEach, CoordinatorType
from minibroker.wire.schema import Int16, Int32, String, field, struct

API_KEY = 42
VERSIONS = (0, 2)
ROUTED_BY = CoordinatorOfEach(CoordinatorType.GROUP, keys="groups_names", results="results")
AUTHORIZES = (EachGroup(Operation.DELETE, keys="groups_names", results="results"),)
FLEXIBLE_SINCE = 2


@struct
class Request:
    groups_names: list[String]


@struct
class Result:
    group_id: String
    error_code: Int16


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    results: list[Result]
