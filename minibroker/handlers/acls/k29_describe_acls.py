"""DescribeAcls (key 29): access control entries that match a filter.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER.
Not done: an authorizer. Without one the answer is SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from typing import Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import SecurityDisabled
from minibroker.handlers.acls import check_known
from minibroker.schemas import k29_describe_acls as schema

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


@handles(schema)
def describe_acls(_ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Refuse the request."""
    check_known(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    return schema.Response(error_code=SecurityDisabled.code, error_message=NO_AUTHORIZER, resources=[])
