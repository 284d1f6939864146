"""Read and write access control entries as people do: `alice allow READ TOPIC orders-*`.

    PRINCIPAL allow|deny OPERATION[,OPERATION...] TYPE NAME [from HOST]
    PRINCIPAL allow|deny OPERATION[,OPERATION...] CLUSTER [from HOST]

PRINCIPAL  `alice` means User:alice, `*` every user
OPERATION  Kafka's name in any case: READ, WRITE, DESCRIBE_CONFIGS ..., or ALL
TYPE       TOPIC, GROUP, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER; CLUSTER has no name
NAME       `orders` is one resource, `orders-*` every one that begins with `orders-`, `*` every one
HOST       a numeric address
"""

from __future__ import annotations

from typing import TypeVar

from minibroker.errors import ConfigurationError
from minibroker.security.acl import ANY_HOST, ANY_NAME, CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType

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
    said = _member(Permission, permission, "allow or deny", text)
    return [
        Acl(
            resource_type, name, pattern_type, principal_of(principal), host,
            _member(Operation, operation, "an operation", text), said,
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


def _member(kind: type[_Numbered], word: str, what: str, text: str) -> _Numbered:
    known = {each.name: each for each in kind if each.name not in {"UNKNOWN", "ANY"}}
    found = known.get(word.upper().replace("-", "_"))
    if found is None:
        raise ConfigurationError(f"{text!r}: {word} is not {what}: {', '.join(known)}")
    return found
