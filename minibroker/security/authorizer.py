"""Decide what a principal may do, as Apache Kafka's StandardAuthorizer does (StandardAuthorizerData of 4.3.1).

    1. A super user may do everything.
    2. An entry that denies the operation wins over entries that allow it.
    3. An entry that allows the operation suffices.
    4. If no entry of any principal concerns the resource, `allow.everyone.if.no.acl.found` decides.
    5. Otherwise the operation is denied.

Entries are found by the resource and then by the principal, so that the number of entries does not matter. Decisions are cached until an
entry changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from typing import Final
from uuid import UUID

from minibroker.security.acl import (
    ANY_HOST,
    ANY_NAME,
    ANY_PRINCIPAL,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

DECISIONS_MAX: Final = 20_000  #: in the cache; it starts again when it is full
_FOUND_AT_ONCE: Final = 500  #: entries that are compared with a filter between two pauses
CACHED_NAME_MAX: Final = 256  #: characters of a resource name; decisions about longer names are not cached, so that memory is bounded

#: operations that an entry with one of these allows; one that denies READ does not deny DESCRIBE
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}

#: the operations that answers report in their fields of authorized operations (AclEntry.supportedOperations)
OPERATIONS: Final[dict[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip

_MADE_UP_NAME: Final = "hardcode"  #: Kafka's; a resource that does not exist


class Decision:
    """Whether an operation is allowed, and the rule that decided."""

    __slots__ = ("acl", "is_allowed", "rule")

    def __init__(self, rule: str, acl: Acl | None = None, *, is_allowed: bool) -> None:
        self.is_allowed = is_allowed
        self.rule = rule
        self.acl = acl  #: the entry that decided

    def __str__(self) -> str:
        """Name the rule as Kafka's audit log does."""
        return self.rule if self.acl is None else f"MatchingAcl(acl={self.acl})"


_SUPER_USER: Final = Decision("SuperUser", is_allowed=True)
_DEFAULT_ALLOW: Final = Decision("DefaultAllow", is_allowed=True)
_DEFAULT_DENY: Final = Decision("DefaultDeny", is_allowed=False)

RIGHTS_MAX: Final = 100_000  #: names in all Rights


class Rights:
    """The operations that a client was allowed since the last change of an entry: names of resources by kind and operation.

    The authorization of frequent requests looks here first, so that a request costs one look-up for each resource.
    """

    __slots__ = ("_authorizer", "_host", "allowed", "is_current", "principal")

    def __init__(self, authorizer: Authorizer, principal: str, host: str) -> None:
        self._authorizer = authorizer
        self._host = host
        self.principal = principal
        self.is_current = True  #: whether they still follow from the entries
        self.allowed: defaultdict[int, set[str | UUID]] = defaultdict(set)  #: by `rights_key`; topics also by their ids

    def keep(self, key: int, name: str | UUID) -> None:
        """Remember an allowed operation."""
        names = self.allowed[key]
        if name not in names and not (isinstance(name, str) and len(name) > CACHED_NAME_MAX):
            names.add(name)
            self._authorizer.count_right()


def rights_key(operation: Operation, kind: ResourceType) -> int:
    """Return the key of `Rights.allowed`."""
    return int(kind) << 8 | int(operation)


_Question = tuple[str, str, Operation, ResourceType, str | None]  #: principal, host, operation, type, name or None for any name


class Authorizer:
    """The access control entries of a cluster."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone_if_no_acl: bool = False) -> None:
        self.super_users = frozenset(super_users)  #: whole principals, such as `User:admin`
        self.allow_everyone_if_no_acl = allow_everyone_if_no_acl
        self.generation = 0  #: counts changes, for callers that cache decisions
        self._acls: dict[Acl, None] = {}
        #: pattern -> principal -> entries
        self._by_pattern: dict[tuple[ResourceType, PatternType, str], dict[str, list[Acl]]] = {}
        self._by_principal: dict[tuple[ResourceType, str], dict[Acl, None]] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}  #: of the names of prefixed patterns, longest first
        self._decisions: dict[_Question, Decision] = {}
        self._operations: dict[tuple[str, str, ResourceType, str], int] = {}
        self._rights: dict[tuple[str, str], Rights] = {}
        self._right_count = 0

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._acls)

    def __contains__(self, acl: Acl) -> bool:
        """Return whether the entry exists."""
        return acl in self._acls

    def add(self, acl: Acl) -> None:
        """Add an entry. Does nothing if it exists."""
        if acl in self._acls:
            return
        self._acls[acl] = None
        principals = self._by_pattern.setdefault((acl.resource_type, acl.pattern_type, acl.resource_name), {})
        principals.setdefault(acl.principal, []).append(acl)
        self._by_principal.setdefault((acl.resource_type, acl.principal), {})[acl] = None
        self._forget(acl)

    def remove(self, acl: Acl) -> None:
        """Remove an entry. Does nothing if it does not exist."""
        if acl not in self._acls:
            return
        del self._acls[acl]
        pattern = acl.resource_type, acl.pattern_type, acl.resource_name
        principals = self._by_pattern[pattern]
        principals[acl.principal].remove(acl)
        if not principals[acl.principal]:
            del principals[acl.principal]
        if not principals:
            del self._by_pattern[pattern]
        of_principal = self._by_principal[acl.resource_type, acl.principal]
        del of_principal[acl]
        if not of_principal:
            del self._by_principal[acl.resource_type, acl.principal]
        self._forget(acl)

    def find(self, acl_filter: AclFilter) -> Generator[None, None, list[Acl]]:
        """Return the entries that match a filter, in the order of their creation, with pauses.

        Some of them may be removed when it ends.
        """
        found = []
        for number, acl in enumerate(list(self._acls)):
            if number % _FOUND_AT_ONCE == _FOUND_AT_ONCE - 1:
                yield
            if acl_filter.matches(acl):
                found.append(acl)
        return found

    def is_allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether a client may do something with the resource of this name."""
        return self.decide(principal, host, operation, resource_type, name).is_allowed

    def decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        """Return whether a client may do something with the resource of this name, and why.

        Args:
            principal: who the client is, such as `User:alice`.
            host: the client's numeric address.
            operation: what it does.
            resource_type: the kind of resource.
            name: the resource.
        """
        question = principal, host, operation, resource_type, name
        return self._decisions.get(question) or self._answer(*question)

    def is_allowed_by_type(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Return whether there is a resource of this type with which a client may do something (Authorizer.authorizeByResourceType)."""
        question = principal, host, operation, resource_type, None
        decision = self._decisions.get(question)
        if decision is None:
            is_allowed = self._is_allowed_by_type(principal, host, operation, resource_type)
            decision = _DEFAULT_ALLOW if is_allowed else _DEFAULT_DENY
            self._remember(question, decision)
        return decision.is_allowed

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the operations that a client may do with a resource: bit n stands for operation n."""
        question = principal, host, resource_type, name
        bits = self._operations.get(question)
        if bits is None:
            bits = sum(
                1 << operation
                for operation in OPERATIONS[resource_type]
                if self._decide(principal, host, operation, resource_type, name).is_allowed
            )
            if len(name) <= CACHED_NAME_MAX:
                if len(self._operations) >= DECISIONS_MAX:
                    self._operations.clear()
                self._operations[question] = bits
        return bits

    def rights(self, principal: str, host: str) -> Rights:
        """Return the rights of a client. All of its connections share them."""
        rights = self._rights.get((principal, host))
        if rights is None:
            self.count_right()
            rights = self._rights[principal, host] = Rights(self, principal, host)
        return rights

    def count_right(self) -> None:
        """Count a name in the rights of a client, and start again when there are too many."""
        self._right_count += 1
        if self._right_count > RIGHTS_MAX:
            self._forget_rights()

    def _forget_rights(self) -> None:
        self.generation += 1
        for rights in self._rights.values():
            rights.is_current = False
        self._rights.clear()
        self._right_count = 0

    def _answer(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        decision = self._decide(principal, host, operation, resource_type, name)
        if len(name) <= CACHED_NAME_MAX:
            self._remember((principal, host, operation, resource_type, name), decision)
        return decision

    def _remember(self, question: _Question, decision: Decision) -> None:
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[question] = decision

    def _forget(self, changed: Acl) -> None:
        """Forget decisions, and follow the lengths of prefixes."""
        self._forget_rights()
        self._decisions.clear()
        self._operations.clear()
        if changed.pattern_type == PatternType.PREFIXED:
            self._prefix_lengths.pop(changed.resource_type, None)

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> Decision:
        if principal in self.super_users:
            return _SUPER_USER
        allowing, concerns_resource = None, False
        for principals in self._patterns_of(resource_type, name):
            concerns_resource = True
            for name_of_entry in (principal, ANY_PRINCIPAL):
                for acl in principals.get(name_of_entry, ()):
                    if not _applies(acl, host, operation):
                        continue
                    if acl.permission == Permission.DENY:
                        return Decision("", acl, is_allowed=False)
                    allowing = acl
        if allowing is not None:
            return Decision("", allowing, is_allowed=True)
        return _DEFAULT_ALLOW if self.allow_everyone_if_no_acl and not concerns_resource else _DEFAULT_DENY

    def _patterns_of(self, resource_type: ResourceType, name: str) -> Iterator[dict[str, list[Acl]]]:
        """Yield the entries, by principal, of each pattern that a resource matches."""
        find = self._by_pattern.get
        found = find((resource_type, PatternType.LITERAL, name))
        if found is not None:
            yield found
        for length in self._lengths_of_prefixes(resource_type):
            if length <= len(name):
                found = find((resource_type, PatternType.PREFIXED, name[:length]))
                if found is not None:
                    yield found
        if name != ANY_NAME:
            found = find((resource_type, PatternType.LITERAL, ANY_NAME))
            if found is not None:
                yield found

    def _lengths_of_prefixes(self, resource_type: ResourceType) -> list[int]:
        lengths = self._prefix_lengths.get(resource_type)
        if lengths is None:
            found = {len(name) for kind, pattern, name in self._by_pattern if kind == resource_type and pattern == PatternType.PREFIXED}
            lengths = self._prefix_lengths[resource_type] = sorted(found, reverse=True)
        return lengths

    def _is_allowed_by_type(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        if self._decide(principal, host, operation, resource_type, _MADE_UP_NAME).is_allowed:
            return True
        allowed: set[tuple[PatternType, str]] = set()
        denied: set[tuple[PatternType, str]] = set()
        for name in (principal, ANY_PRINCIPAL):
            for acl in self._by_principal.get((resource_type, name), ()):
                if acl.host in {host, ANY_HOST} and acl.operation in {operation, Operation.ALL}:
                    (denied if acl.permission == Permission.DENY else allowed).add((acl.pattern_type, acl.resource_name))
        if (PatternType.LITERAL, ANY_NAME) in denied:
            return False
        if (PatternType.LITERAL, ANY_NAME) in allowed:
            return True
        shadows = {name for pattern, name in denied if pattern == PatternType.PREFIXED}
        return any(
            not (pattern == PatternType.LITERAL and (pattern, name) in denied)
            and not any(name[:length] in shadows for length in range(1, len(name) + 1))
            for pattern, name in allowed
        )


def _applies(acl: Acl, host: str, operation: Operation) -> bool:
    """Return whether an entry decides about an operation of a client at this host; principal and resource match already."""
    if acl.host not in {ANY_HOST, host}:
        return False
    if acl.operation in {operation, Operation.ALL}:
        return True
    return acl.permission == Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())
