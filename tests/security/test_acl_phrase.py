"""ACLs as people write them."""

from __future__ import annotations

import pytest

from minibroker.errors import ConfigurationError
from minibroker.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from minibroker.security.acl_phrase import parse_acls, phrase


@pytest.mark.parametrize(
    "text",
    [
        "alice allow READ TOPIC orders",
        "alice allow READ TOPIC orders-*",
        "alice deny ALL TOPIC *",
        "Group:ops allow ALTER CLUSTER",
        "* allow DESCRIBE GROUP g from ::1",
        "alice allow CREATE_TOKENS USER User:bob",
    ],
)
def test_a_phrase_is_read_and_written(text: str) -> None:
    assert [phrase(each) for each in parse_acls(text)] == [text]


def test_several_operations_are_several_acls_in_any_case() -> None:
    found = parse_acls("alice ALLOW read,Write topic orders-*")
    assert found[0] == Acl(ResourceType.TOPIC, "orders-", PatternType.PREFIXED, "User:alice", "*", Operation.READ, Permission.ALLOW)
    assert [each.operation for each in found] == [Operation.READ, Operation.WRITE]


def test_the_cluster_has_its_own_name() -> None:
    assert parse_acls("a allow ALTER CLUSTER")[0].resource_name == "kafka-cluster"


@pytest.mark.parametrize(
    "text, word",
    [
        ("a allow READ", "is not"),
        ("a may READ TOPIC t", "may"),
        ("a allow EAT TOPIC t", "EAT"),
        ("a allow READ TABLE t", "TABLE"),
        ("a allow ANY TOPIC t", "ANY"),
    ],
)
def test_an_error_names_the_word(text: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        parse_acls(text)
