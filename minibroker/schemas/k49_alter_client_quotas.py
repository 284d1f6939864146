"""AlterClientQuotas, API key 49: set and remove quotas of users, client ids and addresses (KIP-546).

v0  operations on entities
v1  flexible
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster
from minibroker.wire.authorization import Operation as AclOperation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Bool, Float64, Int16, Int32, String, field, struct

API_KEY = 49
VERSIONS = (0, 1)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((AclOperation.ALTER_CONFIGS,)),)
FLEXIBLE_SINCE = 1


@struct
class Entity:
    """One part of what a quota is for; a user and a client id together are two."""

    entity_type: String  #: "user", "client-id", "ip"
    entity_name: String | None  #: null for the default of the type


@struct
class Operation:
    """Kafka's name is OpData."""

    key: String
    value: Float64  #: of no meaning with `remove`
    remove: Bool


@struct
class Entry:
    entity: list[Entity]
    ops: list[Operation]


@struct
class Request:
    entries: list[Entry]
    validate_only: Bool


@struct
class EntryResult:
    error_code: Int16
    error_message: String | None
    entity: list[Entity]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    entries: list[EntryResult]
