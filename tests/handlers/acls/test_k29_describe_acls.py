"""DescribeAcls: golden frames of real clients, and Apache Kafka 4.3.1's answers without an authorizer (raw frames, 2026-11-23)."""

from __future__ import annotations

from typing import Any

import pytest

from minibroker.schemas import k29_describe_acls as schema
from tests.golden import golden
from tests.support.acl_exchanges import expect_close, requests_of
from tests.support.broker_in_memory import BrokerInMemory
from tests.support.golden_exchange import kafka_answers, kafka_like, serve


@pytest.mark.parametrize("name", requests_of("k29_describe_acls"))
def test_golden_requests_get_kafka_bytes(name: str) -> None:
    assert serve(kafka_like(), golden(name)) in kafka_answers(golden(name))


def request(**changes: Any) -> schema.Request:
    names = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    numbers = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    return schema.Request(**(names | numbers | changes))


NUMBERS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")


@pytest.mark.parametrize("field", NUMBERS)
def test_a_number_of_0_closes_the_connection(field: str) -> None:
    expect_close(request(**{field: 0}))


@pytest.mark.parametrize("field", NUMBERS)
def test_numbers_that_are_not_assigned_are_accepted(field: str) -> None:
    answer = BrokerInMemory().ask(request(**{field: 99}))
    assert (answer.error_code, answer.error_message) == (54, "No Authorizer is configured on the broker")
    assert answer.resources == []
