"""DescribeAcls (key 29): access control entries that match a filter.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER. Entries are grouped by
resource pattern, in the order of their creation; Kafka's order is that of a hash map. Without an
authorizer the answer is SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.registry import handles
from minibroker.handlers.acls import DESCRIBED_AT_ONCE, check_known, filter_of, stored_acls
from minibroker.schemas import k29_describe_acls as schema

if TYPE_CHECKING:
    from minibroker.cluster.metadata.acls import StoredAcls

NO_AUTHORIZER: Final = "No Authorizer is configured on the broker"


@handles(schema, has_long_answer=True)
def describe_acls(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Find the entries."""
    check_known(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    return ctx.broker.slices.run(_describe(stored_acls(ctx, NO_AUTHORIZER), request))


def _describe(stored: StoredAcls, request: schema.Request) -> Generator[None, None, schema.Response]:
    resources: dict[tuple[int, str, int], schema.Resource] = {}
    for number, acl in enumerate((yield from stored.find(filter_of(request)))):
        if number % DESCRIBED_AT_ONCE == DESCRIBED_AT_ONCE - 1:
            yield
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = schema.Resource(
                resource_type=acl.resource_type, resource_name=acl.resource_name, pattern_type=acl.pattern_type, acls=[]
            )
        resource.acls.append(
            schema.AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
        )
    return schema.Response(error_code=0, error_message="", resources=list(resources.values()))
