"""CreateAcls, DescribeAcls and DeleteAcls with an authorizer: answers as those of Apache Kafka 4.3.1 (raw requests, 2026-11-23)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.cluster.metadata.metadata_log import RECORDS_IN_BATCH_MAX
from minibroker.config.request_limits import ACL_FILTERS_MAX
from minibroker.schemas import k29_describe_acls as k29
from minibroker.schemas import k30_create_acls as k30
from minibroker.schemas import k31_delete_acls as k31
from minibroker.security.acl import AclFilter
from tests.handlers.acls.test_k29_describe_acls import request
from tests.handlers.acls.test_k30_create_acls import creation
from tests.handlers.acls.test_k31_delete_acls import matching
from tests.support.access import ADMIN, acl, authorize
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.turns import result_of

NO_COLON = "Could not parse principal from `{}` (no colon is present separating the principal type from the principal name)"


def broker(*acls: str) -> BrokerInMemory:
    made = BrokerInMemory()
    authorize(made.services, acls)
    made.connection.principal = ADMIN
    return made


def resources(answer: k29.Response) -> list[tuple[Any, ...]]:
    return [
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            [(acl.principal, acl.operation, acl.permission_type) for acl in each.acls],
        )
        for each in answer.resources
    ]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, None),
        ({"host": ""}, None),
        ({"principal": ":"}, None),
        ({"principal": "Role:x"}, None),
        ({"resource_type": 4, "resource_name": "kafka-cluster"}, None),
        ({"resource_type": 4, "resource_name": "kafka-cluster", "resource_pattern_type": 4}, None),
        ({"resource_type": 7, "resource_name": "bob", "operation": 13}, None),
        ({"resource_type": 3, "operation": 12}, None),  # the operation does not fit; Kafka does not check that
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "anna"}, NO_COLON.format("anna")),
        ({"principal": ""}, NO_COLON.format("")),
        ({"resource_type": 9}, "Invalid resourceType UNKNOWN"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        # Apache Kafka 4.3.1 answers -1 without a message
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_pattern_type": 1}, "Invalid patternType ANY"),
        ({"resource_pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"permission_type": 1}, "Invalid permissionType ANY"),
    ],
)
def test_entries_are_validated_one_by_one(changes: dict[str, Any], message: str | None) -> None:
    made = broker()
    answer = made.ask(k30.Request(creations=[creation(**changes), creation(resource_name="other")]))
    first = (0, "") if message is None else (42, message)
    assert [(each.error_code, each.error_message) for each in answer.results] == [first, (0, "")]
    assert len(made.ask(request()).resources) == (2 if message is None else 1)


def test_existing_entry_is_not_stored_twice() -> None:
    made = broker()
    for _ in range(2):
        answer = made.ask(k30.Request(creations=[creation(), creation()]))
        assert [(each.error_code, each.error_message) for each in answer.results] == [(0, ""), (0, "")]
    assert len(made.cluster.image.kept.acls) == 1


def test_entries_are_described_by_pattern() -> None:
    made = broker("anna READ TOPIC t", "anna READ TOPIC orders-*", "bob DENY WRITE TOPIC t", "anna READ GROUP *")
    everything = made.ask(request())
    assert (everything.error_code, everything.error_message) == (0, "")
    assert resources(everything) == [
        (2, "t", 3, [("User:anna", 3, 3), ("User:bob", 4, 2)]),
        (2, "orders-", 4, [("User:anna", 3, 3)]),
        (3, "*", 3, [("User:anna", 3, 3)]),
    ]
    found = made.ask(request(resource_type_filter=2, resource_name_filter="orders-7", pattern_type_filter=2))
    assert resources(found) == [(2, "orders-", 4, [("User:anna", 3, 3)])]
    assert resources(made.ask(request(operation=99))) == []
    assert resources(made.ask(request(resource_type_filter=4, resource_name_filter="x"))) == []


def test_each_filter_returns_its_matches() -> None:
    made = broker("anna READ TOPIC t", "bob READ TOPIC t")
    answer = made.ask(k31.Request(filters=[matching(), matching(principal_filter="User:bob"), matching(principal_filter="eve")]))
    assert [[each.principal for each in result.matching_acls] for result in answer.filter_results] == [
        ["User:anna", "User:bob"],
        ["User:bob"],
        [],
    ]
    assert [(each.error_code, each.error_message) for each in answer.filter_results] == [(0, None)] * 3
    assert made.ask(request()).resources == []
    assert made.cluster.image.kept.acls == {}


@pytest.mark.parametrize("is_clean", [True, False])
def test_entries_survive_a_restart(is_clean: bool) -> None:
    made = broker("anna READ TOPIC t", "anna WRITE TOPIC t")
    made.ask(k31.Request(filters=[matching(operation=4)]))
    again = made.restart(clean=is_clean)
    stored = authorize(again.services)
    assert result_of(stored.find(AclFilter())) == [acl("anna READ TOPIC t")]
    assert stored.authorizer.is_allowed("User:anna", "127.0.0.1", acl("a READ TOPIC t").operation, acl("a READ TOPIC t").resource_type, "t")


def test_large_requests_are_served_in_pieces_up_to_a_limit() -> None:
    made = broker()
    many = [creation(resource_name=f"t{number}") for number in range(1000)]
    assert {each.error_code for each in made.ask(k30.Request(creations=many)).results} == {0}
    too_many = [creation(resource_name=f"u{number}") for number in range(RECORDS_IN_BATCH_MAX + 1)]
    assert {each.error_code for each in made.ask(k30.Request(creations=too_many)).results} == {44}
    assert len(made.cluster.image.kept.acls) == 1000
    filters = [matching(resource_name_filter=f"t{number}") for number in range(100)]
    answer = made.ask(k31.Request(filters=filters))
    assert [len(each.matching_acls) for each in answer.filter_results] == [1] * 100
    refused = made.ask(k31.Request(filters=[matching()] * (ACL_FILTERS_MAX + 1)))
    assert {each.error_code for each in refused.filter_results} == {44}
    assert len(made.cluster.image.kept.acls) == 900
