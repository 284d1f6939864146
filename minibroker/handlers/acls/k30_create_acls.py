"""CreateAcls (key 30): add access control entries.

Versions: 1 to 3; 2 is flexible; 3 allows resources of the type USER. Each entry is created or
refused independently. Creating an existing entry succeeds and changes nothing. The answer is sent
when the entries are on the disk. They apply from the next request on, also on open connections. A
request of more than 10,000 entries is refused. Without an authorizer each entry is refused with
SECURITY_DISABLED, as in Apache Kafka 4.3.1.
"""

from __future__ import annotations

from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX
from minibroker.config.request_limits import ACLS_IN_PIECE
from minibroker.dispatch.context import RequestContext
from minibroker.dispatch.pieces import Pieces
from minibroker.dispatch.registry import handles
from minibroker.errors import KafkaError, PolicyViolation
from minibroker.handlers.acls import check_known, stored_acls
from minibroker.schemas import k30_create_acls as schema
from minibroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType


def _check_count(_ctx: RequestContext, request: schema.Request) -> None:
    if len(request.creations) > RECORDS_IN_BATCH_MAX:
        raise PolicyViolation(f"A request may create {RECORDS_IN_BATCH_MAX} access control entries at most.")


@handles(schema, Pieces("creations", "results", size=ACLS_IN_PIECE, check=_check_count))
def create_acls(ctx: RequestContext, request: schema.Request) -> schema.Response:
    """Create each entry."""
    for each in request.creations:
        check_known(each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
    stored = stored_acls(ctx)
    outcomes = stored.create(
        Acl(
            ResourceType(each.resource_type),
            each.resource_name,
            PatternType(each.resource_pattern_type),
            each.principal,
            each.host,
            Operation(each.operation),
            Permission(each.permission_type),
        )
        for each in request.creations
    )
    return schema.Response(results=[_result(error) for error in outcomes])


def on_error(_ctx: RequestContext, request: schema.Request, error: KafkaError) -> schema.Response:
    """Answer each entry with `error`."""
    return schema.Response(results=[_result(error)] * len(request.creations))


def _result(error: KafkaError | None) -> schema.AclCreationResult:
    return schema.AclCreationResult(error_code=error.code if error else 0, error_message=str(error) if error else "")
