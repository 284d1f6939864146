"""CreateAcls (key 30): add access control entries.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER.
Not done: an authorizer. Without one each entry is refused with SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, SecurityDisabled
from minibroker.handlers.acls import NO_AUTHORIZER, check_known
from minibroker.schemas import k30_create_acls as schema


@handles(schema)
def create_acls(_ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Refuse each entry."""
    for each in request.creations:
        check_known(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    return on_error(_ctx, request, SecurityDisabled(NO_AUTHORIZER))


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Answer each entry with `error`."""
    refused = schema.AclCreationResult(error_code=error.code, error_message=str(error))
    return schema.Response(results=[refused] * len(request.creations))
