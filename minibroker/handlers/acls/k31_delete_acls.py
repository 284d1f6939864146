"""DeleteAcls (key 31): remove access control entries that match filters.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER.
Not done: an authorizer. Without one each filter is refused with SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, SecurityDisabled
from minibroker.handlers.acls import NO_AUTHORIZER, check_known
from minibroker.schemas import k31_delete_acls as schema


@handles(schema)
def delete_acls(_ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Refuse each filter."""
    for each in request.filters:
        check_known(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    return on_error(_ctx, request, SecurityDisabled(NO_AUTHORIZER))


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Answer each filter with `error`."""
    refused = schema.FilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
    return schema.Response(filter_results=[refused] * len(request.filters))
