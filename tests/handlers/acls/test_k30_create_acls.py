"""CreateAcls: golden frames of real clients, and Apache Kafka 4.3.1's answers without an authorizer (raw frames, 2026-11-23)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.schemas import k30_create_acls as schema
from tests.golden import golden
from tests.support.acl_exchanges import expect_close, requests_of
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve


@pytest.mark.parametrize("name", requests_of("k30_create_acls"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    assert serve(kafka_like(), golden(name)) in kafka_answers(golden(name))


def creation(**changes: Any) -> schema.AclCreation:
    entry: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "t",
        "principal": "User:anna",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return schema.AclCreation(**(entry | changes))


NUMBERS = ("resource_type", "resource_pattern_type", "operation", "permission_type")


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_of_0_closes_the_connection(field: str) -> None:
    expect_close(schema.Request(creations=[creation(), creation(**{field: 0})]))


def test_each_entry_is_refused_without_authorizer() -> None:
    """Nothing else of an entry is looked at."""
    odd = [creation(**{field: 1}) for field in NUMBERS] + [creation(resource_name=""), creation(principal="nonsense")]
    answer = BrokerInMemory().ask(schema.Request(creations=odd))
    assert [(each.error_code, each.error_message) for each in answer.results] == [(54, "No Authorizer is configured.")] * 6
