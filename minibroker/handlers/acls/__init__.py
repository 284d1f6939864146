"""The shared code of DescribeAcls, CreateAcls and DeleteAcls.

Apache Kafka 4.3.1 answers them with SECURITY_DISABLED if there is no authorizer. It closes the
connection if a resource type, pattern type, operation or permission type is 0, which means that the
client does not know its name. It treats unassigned numbers as UNKNOWN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.dispatch.context import RequestContext
from minibroker.errors import SecurityDisabled, WireError
from minibroker.security.acl import AclFilter, Operation, PatternType, Permission, ResourceType

if TYPE_CHECKING:
    from minibroker.cluster.metadata.acls import StoredAcls

NO_AUTHORIZER: Final = "No Authorizer is configured."
UNKNOWN: Final = 0
DESCRIBED_AT_ONCE: Final = 200  #: entries of an answer between two pauses


def check_known(*numbers: int) -> None:
    """Raise WireError if one of the numbers of an entry or a filter is UNKNOWN."""
    if UNKNOWN in numbers:
        raise WireError("an access control entry has a resource type, pattern type, operation or permission type of 0 (UNKNOWN)")


def stored_acls(ctx: RequestContext, message: str = NO_AUTHORIZER) -> StoredAcls:
    """Return the entries of the cluster, or raise SecurityDisabled with `message` if there is no authorizer."""
    if ctx.broker.acls is None:
        raise SecurityDisabled(message)
    return ctx.broker.acls


def filter_of(entry: Any) -> AclFilter:
    """Return the filter of a DescribeAcls request, or of an element of a DeleteAcls request."""
    return AclFilter(
        ResourceType(entry.resource_type_filter),
        entry.resource_name_filter,
        PatternType(entry.pattern_type_filter),
        entry.principal_filter,
        entry.host_filter,
        Operation(entry.operation),
        Permission(entry.permission_type),
    )
