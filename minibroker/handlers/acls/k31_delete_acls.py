"""DeleteAcls (key 31): remove access control entries that match filters.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER. An entry that several filters
match is in the results of all of them. A request of more than 1,000 filters is refused. A request
that matches more than 10,000 entries is refused as well, as in Apache Kafka. Without an authorizer
each filter is refused with SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from minibroker.config.request_limits import ACL_FILTERS_IN_PIECE, ACL_FILTERS_MAX
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.delayed import Delayed
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, PolicyViolation
from minibroker.handlers.acls import DESCRIBED_AT_ONCE, check_known, filter_of, stored_acls
from minibroker.schemas import k31_delete_acls as schema

if TYPE_CHECKING:
    from minibroker.cluster.metadata.acls import StoredAcls
    from minibroker.security.acl import Acl


def _check_count(_ctx: RequestContext, request: schema.Request) -> None:
    if len(request.filters) > ACL_FILTERS_MAX:
        raise PolicyViolation(f"A request may have {ACL_FILTERS_MAX} filters at most.")


@handles(schema, Pieces("filters", "filter_results", size=ACL_FILTERS_IN_PIECE, check=_check_count), has_long_answer=True)
def delete_acls(ctx: RequestContext, request: schema.Request) -> schema.Response | Delayed:
    """Delete the entries that each filter matches."""
    for each in request.filters:
        check_known(each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type)
    return ctx.broker.slices.run(_delete(stored_acls(ctx), request))


def _delete(stored: StoredAcls, request: schema.Request) -> Generator[None, None, schema.Response]:
    results = []
    for matching in (yield from stored.delete(map(filter_of, request.filters))):
        result = schema.FilterResult(error_code=0, error_message=None, matching_acls=[])
        for number, acl in enumerate(matching):
            if number % DESCRIBED_AT_ONCE == DESCRIBED_AT_ONCE - 1:
                yield
            result.matching_acls.append(_matching(acl))
        results.append(result)
    return schema.Response(filter_results=results)


def _matching(acl: Acl) -> schema.MatchingAcl:
    return schema.MatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Answer each filter with `error`."""
    refused = schema.FilterResult(error_code=error.code, error_message=str(error), matching_acls=[])
    return schema.Response(filter_results=[refused] * len(request.filters))
