"""Brokers with an authorizer, for tests: entries in one line each."""

from __future__ import annotations

from collections.abc import Iterable

from minibroker.cluster.metadata.acls import StoredAcls
from minibroker.dispatch.context import Services
from minibroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from minibroker.security.authorizer import Authorizer

ADMIN = "User:admin"


def acl(line: str) -> Acl:
    """Return the entry of a line such as `alice READ TOPIC orders`, `alice DENY WRITE TOPIC orders-*` or `* ALL GROUP *`."""
    user, *words = line.split()
    permission = Permission.DENY if words[0] == "DENY" else Permission.ALLOW
    operation, kind, name = words[-3:]
    is_prefix = name.endswith("*") and name != "*"
    return Acl(
        ResourceType[kind],
        name.removesuffix("*") if is_prefix else name,
        PatternType.PREFIXED if is_prefix else PatternType.LITERAL,
        f"User:{user}",
        "*",
        Operation[operation],
        permission,
    )


def authorize(services: Services, acls: Iterable[str] = (), *, super_users: Iterable[str] = (ADMIN,)) -> StoredAcls:
    """Give a broker an authorizer, whose entries are those of its metadata log and of `acls`. Connections of tests are ANONYMOUS."""
    cluster = services.cluster
    stored = StoredAcls(cluster.image.kept.acls.values(), cluster.write_quotas_and_credentials, Authorizer(super_users))
    assert set(stored.create(map(acl, acls))) <= {None}
    services.authorize(stored)
    return stored
