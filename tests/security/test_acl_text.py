"""Access control entries as people write them."""

from __future__ import annotations

import pytest

from minibroker.errors import ConfigurationError
from minibroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType, parse_acl, text_of


@pytest.mark.parametrize(
    ("text", "acl"),
    [
        (
            "alice allow READ TOPIC orders-*",
            Acl(ResourceType.TOPIC, "orders-", PatternType.PREFIXED, "User:alice", "*", Operation.READ, Permission.ALLOW),
        ),
        (
            "User:bob DENY describe-configs topic orders from 10.0.0.1",
            Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:bob", "10.0.0.1", Operation.DESCRIBE_CONFIGS, Permission.DENY),
        ),
        ("* allow all group *", Acl(ResourceType.GROUP, "*", PatternType.LITERAL, "User:*", "*", Operation.ALL, Permission.ALLOW)),
        (
            "alice allow CREATE CLUSTER",
            Acl(ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "User:alice", "*", Operation.CREATE, Permission.ALLOW),
        ),
        (
            "alice allow write transactional-id from",
            Acl(ResourceType.TRANSACTIONAL_ID, "from", PatternType.LITERAL, "User:alice", "*", Operation.WRITE, Permission.ALLOW),
        ),
    ],
)
def test_one_entry(text: str, acl: Acl) -> None:
    assert parse_acl(text) == [acl]
    assert parse_acl(text_of(acl)) == [acl]


def test_several_operations() -> None:
    assert [acl.operation for acl in parse_acl("alice allow READ,DESCRIBE TOPIC t")] == [Operation.READ, Operation.DESCRIBE]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("alice", "is not an access control entry"),
        ("alice may READ TOPIC t", "may is not allow or deny: use DENY, ALLOW"),
        ("alice allow FLY TOPIC t", "FLY is not an operation: use ALL, READ"),
        ("alice allow ANY TOPIC t", "ANY is not an operation"),
        ("alice allow READ TABLE t", "TABLE is not a resource type: use TOPIC, GROUP"),
        ("alice allow READ TOPIC", "has no name of a resource"),
        ("alice allow READ TOPIC a b", "has more words than one name"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_acl(text)
    assert problem in str(caught.value)
