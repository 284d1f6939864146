"""ACLs as people write them: `alice allow READ,DESCRIBE TOPIC orders-* from 127.0.0.1`.

The name of a resource that ends with `*` means all names that begin so; `*` alone means all. A principal without a type is a user.
The resource CLUSTER has no name. Without `from`, the ACL holds for all addresses.
"""

from __future__ import annotations

from minibroker.errors import ConfigurationError
from minibroker.security.acl import ANY_HOST, ANY_NAME, CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType

FORM = "PRINCIPAL allow|deny OPERATION,... TYPE NAME [from ADDRESS]"
OPERATIONS = tuple(each.name for each in Operation if each > Operation.ANY)
TYPES = tuple(each.name for each in ResourceType if each > ResourceType.ANY)


def parse_acls(text: str) -> list[Acl]:
    """Return the ACLs of a phrase, one for each operation.

    Raises:
        ConfigurationError: the phrase does not have this form. The message says which word is wrong.
    """
    words = text.split()
    host = ANY_HOST
    if len(words) > 2 and words[-2].lower() == "from":
        host, words = words[-1], words[:-2]
    if len(words) == 4 and words[3].upper() == "CLUSTER":
        words.append(CLUSTER_NAME)
    if len(words) != 5:
        raise ConfigurationError(f"ACL {text!r} is not {FORM}")
    who, permission, operations, resource_type, name = words
    if permission.lower() not in ("allow", "deny"):
        raise ConfigurationError(f"ACL {text!r}: {permission} must be allow or deny")
    if resource_type.upper() not in TYPES:
        raise ConfigurationError(f"ACL {text!r}: {resource_type} is not a resource type: {', '.join(TYPES)}")
    kind = ResourceType[resource_type.upper()]
    is_prefix = name.endswith("*") and name != ANY_NAME and kind is not ResourceType.CLUSTER
    found = []
    for each in operations.split(","):
        if each.upper() not in OPERATIONS:
            raise ConfigurationError(f"ACL {text!r}: {each} is not an operation: {', '.join(OPERATIONS)}")
        found.append(
            Acl(
                kind,
                name[:-1] if is_prefix else name,
                PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
                principal(who),
                host,
                Operation[each.upper()],
                Permission[permission.upper()],
            )
        )
    return found


def phrase(acl: Acl) -> str:
    """Return an ACL in this form."""
    who = acl.principal.removeprefix("User:")
    name = (
        ""
        if acl.resource_type is ResourceType.CLUSTER
        else f" {acl.resource_name}{'*' if acl.pattern_type is PatternType.PREFIXED else ''}"
    )
    host = "" if acl.host == ANY_HOST else f" from {acl.host}"
    return f"{who} {acl.permission.name.lower()} {acl.operation.name} {acl.resource_type.name}{name}{host}"


def principal(name: str) -> str:
    """Return a principal with its type: `alice` is `User:alice`."""
    return name if ":" in name else f"User:{name}"
