"""Access control entries (ACLs) and filters that find them, as in Apache Kafka 4.3.1 (AclBinding, AclBindingFilter)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self

from minibroker.wire.authorization import Operation, ResourceType

__all__ = [
    "ANY_HOST",
    "ANY_NAME",
    "ANY_PRINCIPAL",
    "CLUSTER_NAME",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
]

ANY_NAME: Final = "*"  #: as the name of a literal pattern: every resource of the type
ANY_HOST: Final = "*"
ANY_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"  #: the only resource of the type CLUSTER


class PatternType(IntEnum):
    """How the name in an ACL names resources. UNKNOWN, ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        """Read numbers that are not assigned as UNKNOWN, as Kafka does."""
        return cls(0)


class Permission(IntEnum):
    """What an ACL says. UNKNOWN and ANY occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        """Read numbers that are not assigned as UNKNOWN, as Kafka does."""
        return cls(0)


class Acl(NamedTuple):
    """One entry: whether a principal at a host may do something with resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str  #: `User:name`, or `User:*` for every user
    host: str  #: a numeric address, or `*`
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        """Describe the entry as Kafka's audit log does (StandardAcl.toString)."""
        return (
            f"StandardAcl[resourceType={self.resource_type.name}, resourceName={self.resource_name},"
            f" patternType={self.pattern_type.name}, principal={self.principal}, host={self.host},"
            f" operation={self.operation.name}, permissionType={self.permission.name}]"
        )


class AclFilter(NamedTuple):
    """A condition on entries: None and ANY match everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter matches an entry."""
        return (
            self.resource_type in {ResourceType.ANY, acl.resource_type}
            and self.operation in {Operation.ANY, acl.operation}
            and self.permission in {Permission.ANY, acl.permission}
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        """Compare patterns. MATCH finds the entries that concern a resource of this name (ResourcePatternFilter.matches)."""
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, acl.pattern_type}:
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.resource_name == acl.resource_name
        if acl.pattern_type == PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in {self.resource_name, ANY_NAME}
