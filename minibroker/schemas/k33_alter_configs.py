"""AlterConfigs, API key 33: replace all configs of a resource; superseded by IncrementalAlterConfigs (KIP-339).

v1  answer carries throttle_time_ms before the quota delay, not after it
v2  flexible

A key that the request leaves out goes back to its default.
"""

from __future__ import annotations

from minibroker.wire.authorization import Special
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bool, Int8, Int16, Int32, ResourceName, String, field, struct

API_KEY = 33
VERSIONS = (0, 2)
ROUTED_BY = Controller()  #: except for configs of one broker, which that broker checks first
AUTHORIZES = (Special("ALTER_CONFIGS of each topic, group or of the cluster"),)
FLEXIBLE_SINCE = 2


@struct
class Config:
    name: String
    value: String | None


@struct
class Resource:
    resource_type: Int8  #: as in DescribeConfigs
    resource_name: ResourceName
    configs: list[Config]


@struct
class Request:
    resources: list[Resource]
    validate_only: Bool


@struct
class ResourceResult:
    error_code: Int16
    error_message: String | None
    resource_type: Int8
    resource_name: ResourceName


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    responses: list[ResourceResult]
