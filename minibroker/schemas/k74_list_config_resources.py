"""ListConfigResources, API key 74: what has a configuration, by name.

v0  flexible from the start; resources of client metrics only, when it was called ListClientMetricsResources
v1  resources of all types (KIP-1142)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Int8, Int16, Int32, String, field, struct

API_KEY = 74
VERSIONS = (0, 1)
ROUTED_BY = AnyBroker()
AUTHORIZES = (OnCluster((Operation.DESCRIBE_CONFIGS,)),)
FLEXIBLE_SINCE = 0


@struct
class Request:
    resource_types: list[Int8] = field(
        since=1, default=()
    )  #: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group; empty asks for all


@struct
class Resource:
    """Kafka's name is ConfigResource."""

    resource_name: String
    resource_type: Int8 = field(since=1, default=16)


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    config_resources: list[Resource]
