"""DescribeClientQuotas, API key 48: quotas of users, client ids and addresses (KIP-546).

v0  filter by components
v1  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Bool, Float64, Int8, Int16, Int32, String, field, struct

API_KEY = 48
VERSIONS = (0, 1)
ROUTED_BY = AnyBroker()
AUTHORIZES = (OnCluster((Operation.DESCRIBE_CONFIGS,)),)
FLEXIBLE_SINCE = 1


@struct
class Component:
    entity_type: String  #: "user", "client-id", "ip"
    match_type: Int8  #: 0 the name in `match`, 1 the default of the type, 2 any name
    match: String | None


@struct
class Request:
    components: list[Component]  #: empty asks for all
    strict: Bool  #: leave out entities with types that no component names


@struct
class Entity:
    """One part of what a quota is for; a user and a client id together are two."""

    entity_type: String
    entity_name: String | None  #: null for the default of the type


@struct
class Value:
    key: String  #: "producer_byte_rate", "consumer_byte_rate", "request_percentage", ...
    value: Float64


@struct
class Entry:
    entity: list[Entity]
    values: list[Value]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    entries: list[Entry] | None  #: null with an error
