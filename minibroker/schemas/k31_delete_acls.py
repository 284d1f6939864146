"""DeleteAcls, API key 31: remove access control entries that match filters.

v1  pattern types: literal and prefixed resource names (KIP-290)
v2  flexible
v3  resources of the type USER (KIP-373)
"""

from __future__ import annotations

from minibroker.wire.authorization import OnCluster, Operation
from minibroker.wire.routing import Controller
from minibroker.wire.schema import Int8, Int16, Int32, ResourceName, String, field, struct

API_KEY = 31
VERSIONS = (1, 3)
ROUTED_BY = Controller()
AUTHORIZES = (OnCluster((Operation.ALTER,)),)
FLEXIBLE_SINCE = 2


@struct
class DeleteAclsFilter:
    """The numbers and nulls are those of DescribeAcls."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(default=3)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@struct
class Request:
    filters: list[DeleteAclsFilter]


@struct
class MatchingAcl:
    """Kafka's name is DeleteAclsMatchingAcl."""

    error_code: Int16 = field(default=0)
    error_message: String | None
    resource_type: Int8
    resource_name: ResourceName
    pattern_type: Int8 = field(default=3)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class FilterResult:
    """Kafka's name is DeleteAclsFilterResult."""

    error_code: Int16
    error_message: String | None
    matching_acls: list[MatchingAcl]


@struct
class Response:
    throttle_time_ms: Int32 = field(default=0)
    filter_results: list[FilterResult]  #: one for each filter, in its order
