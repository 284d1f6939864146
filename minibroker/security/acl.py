"""Access control entries (ACLs), filters that find them (AclBinding, AclBindingFilter of Apache Kafka 4.3.1), and their text form.

People write an entry as `alice allow READ TOPIC orders-*`:

    PRINCIPAL allow|deny OPERATION[,OPERATION...] TYPE NAME [from HOST]
    PRINCIPAL allow|deny OPERATION[,OPERATION...] CLUSTER [from HOST]

PRINCIPAL  `alice` means User:alice, `*` every user
OPERATION  Kafka's name in any case: READ, WRITE, DESCRIBE_CONFIGS ..., or ALL
TYPE       TOPIC, GROUP, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER; CLUSTER has no name
NAME       `orders` is one resource, `orders-*` every one that begins with `orders-`, `*` every one
HOST       a numeric address
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self, TypeVar

from minibroker.errors import ConfigurationError
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
    """Whether an ACL allows or denies. UNKNOWN and ANY occur in filters only."""

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


EXAMPLE = "'alice allow READ TOPIC orders-*'"

_ON_CLUSTER_MIN, _WITH_NAME_MIN = 4, 5  #: words
_Numbered = TypeVar("_Numbered", Operation, ResourceType, Permission)


def parse_acl(text: str) -> list[Acl]:
    """Return the entries that a text means, one for each operation.

    Raises:
        ConfigurationError: it is not of the form above; the message quotes it.
    """
    words = text.split()
    host = ANY_HOST
    if len(words) > _ON_CLUSTER_MIN and words[-2].lower() == "from":
        host = words[-1]
        words = words[:-2]
    if len(words) < _ON_CLUSTER_MIN:
        raise ConfigurationError(f"{text!r} is not an access control entry: write it as {EXAMPLE}")
    principal, permission, operations, kind = words[:4]
    resource_type = _member(ResourceType, kind, "a resource type", text)
    names = words[4:]
    if resource_type == ResourceType.CLUSTER and not names:
        names = [CLUSTER_NAME]
    if len(names) != 1:
        problem = "has no name of a resource" if not names else "has more words than one name"
        raise ConfigurationError(f"{text!r} {problem}: write it as {EXAMPLE}")
    name, pattern_type = names[0], PatternType.LITERAL
    if name != ANY_NAME and name.endswith("*"):
        name, pattern_type = name[:-1], PatternType.PREFIXED
    effect = _member(Permission, permission, "allow or deny", text)
    return [
        Acl(
            resource_type, name, pattern_type, principal_of(principal), host,
            _member(Operation, operation, "an operation", text), effect,
        )
        for operation in operations.split(",")
    ]  # fmt: skip


def principal_of(name: str) -> str:
    """Return the principal of a user's name; a principal stays as it is."""
    return name if name.startswith("User:") else f"User:{name}"


def text_of(acl: Acl) -> str:
    """Return the text of an entry, which `parse_acl` reads."""
    name = acl.resource_name + ("*" if acl.pattern_type == PatternType.PREFIXED else "")
    resource = "CLUSTER" if acl.resource_type == ResourceType.CLUSTER else f"{acl.resource_type.name} {name}"
    host = "" if acl.host == ANY_HOST else f" from {acl.host}"
    return f"{acl.principal.removeprefix('User:')} {acl.permission.name.lower()} {acl.operation.name} {resource}{host}"


def _member(kind: type[_Numbered], word: str, expected: str, text: str) -> _Numbered:
    known = {each.name: each for each in kind if each.name not in {"UNKNOWN", "ANY"}}
    found = known.get(word.upper().replace("-", "_"))
    if found is None:
        raise ConfigurationError(f"{text!r}: {word} is not {expected}: use {', '.join(known)}")
    return found
