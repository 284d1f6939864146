"""DescribeAcls, API key 29: access control entries that match a filter.

v1  pattern types: literal and prefixed resource names (KIP-290)
v2  flexible
v3  resources of the type USER (KIP-373)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import AnyBroker
from minibroker.wire.schema import Int8, Int16, Int32, String, field, struct

API_KEY = 29
VERSIONS = (1, 3)
ROUTED_BY = AnyBroker()
AUTHORIZES = (OnCluster((Operation.DESCRIBE,)),)
FLEXIBLE_SINCE = 2


@struct
class Request:
    resource_type_filter: Int8  #: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user
    resource_name_filter: String | None  #: null matches any name
    pattern_type_filter: Int8 = field(default=3)  #: 1 any, 2 match, 3 literal, 4 prefixed
    principal_filter: String | None  #: "User:name"; null matches any principal
    host_filter: String | None  #: null matches any host
    operation: Int8  #: 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, ...
    permission_type: Int8  #: 1 any, 2 deny, 3 allow


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class Resource:
    """Kafka's name is DescribeAclsResource."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=3)
    acls: list[AclDescription]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16
    error_message: String | None
    resources: list[Resource]
